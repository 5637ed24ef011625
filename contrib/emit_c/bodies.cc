// Operators that run bodies.

#include "contrib/emit_c/region_code.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// Writes a branch, which captures the inputs from `first` on.
absl::Status WriteBranch(OperationCode& code, const char* name,
                         const Subgraph& branch, size_t first) {
  std::vector<CTensor> inputs;
  for (size_t i = 0; i < branch.captures; ++i) {
    inputs.push_back(code.in(first + i));
  }
  std::vector<CTensor> outputs;
  for (size_t i = 0; i < code.num_outputs(); ++i) {
    if (!code.wants(i)) return Refuse("an output is not wanted");
    outputs.push_back(code.out(i));
  }
  return At(name, WriteBody(code, *branch.body, inputs, outputs));
}

// The branches' outputs are of the sizes of the operation's, which are known,
// so each of them fills the same memory.
absl::Status WriteIf(OperationCode& code) {
  const auto& op = *code.As<ops::If>();
  code.code().Open(fmt::format("if ({}[0])", code.in(0).name));
  NODEWISE_RETURN_IF_ERROR(WriteBranch(code, "then_branch", op.then_branch,
                                       1 + op.else_branch.captures));
  code.code().Close();
  code.code().Open("else");
  NODEWISE_RETURN_IF_ERROR(WriteBranch(code, "else_branch", op.else_branch, 1));
  code.code().Close();
  return absl::OkStatus();
}

constexpr Row kBodyRows[] = {MoveRow<ops::If>("If", &WriteIf)};

}  // namespace

absl::Span<const Row> BodyRows() { return kBodyRows; }

}  // namespace nodewise::emit_c
