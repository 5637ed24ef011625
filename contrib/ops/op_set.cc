#include <algorithm>
#include <tuple>
#include <vector>

#include "contrib/ops/op_families.h"
#include "nodewise/ops/ops.h"

namespace nodewise {
namespace {

constexpr absl::Span<const OperatorDef> (*kFamilies[])() = {
    &UnaryOperators,       &ArithmeticOperators,
    &LogicOperators,       &CastOperators,
    &MatmulOperators,      &ConvOperators,
    &PoolOperators,        &NormOperators,
    &BatchNormOperators,   &LayerNormOperators,
    &SoftmaxOperators,     &ReduceOperators,
    &AxisOperators,        &LayoutOperators,
    &PadOperators,         &IndexingOperators,
    &ConstantOperators,    &SelectionOperators,
    &ResizeOperators,      &SamplingOperators,
    &QuantizeOperators,    &QLinearOperators,
    &RecurrentOperators,   &ControlFlowOperators,
    &AttentionOperators,   &LinearAttentionOperators,
    &CausalConvOperators,  &LossOperators,
    &SignalOperators,      &WindowFunctionOperators,
    &OpaqueOperators,      &TreeEnsembleOperators,
    &RandomOperators,      &DropoutOperators,
    &TreeListOperators,    &EncoderOperators,
    &LinearModelOperators,
};

// Returns the rows of all families. Each ends where the next row of the same
// operator begins, so that the tables need to say only in which opset a row
// begins to hold.
std::vector<OperatorDef> AllRows() {
  std::vector<OperatorDef> rows;
  for (const auto family : kFamilies) {
    const auto part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  std::sort(rows.begin(), rows.end(),
            [](const OperatorDef& a, const OperatorDef& b) {
              return std::tuple(a.domain, a.name, a.since) <
                     std::tuple(b.domain, b.name, b.since);
            });
  for (size_t i = 1; i < rows.size(); ++i) {
    OperatorDef& before = rows[i - 1];
    const bool is_next =
        before.domain == rows[i].domain && before.name == rows[i].name;
    if (is_next) before.until = rows[i].since;
  }
  return rows;
}

}  // namespace

const OpSet& AllOperators() {
  // The set refers to the rows, so both live as long as the process.
  static const auto* const rows = new std::vector<OperatorDef>(AllRows());
  static const OpSet* const set = [] {
    auto* const made = new OpSet;
    made->Add(*rows);
    return made;
  }();
  return *set;
}

}  // namespace nodewise
