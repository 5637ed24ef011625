#include "nodewise/interp/evaluator.h"

#include <algorithm>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class RowEvaluator : public Evaluator {
 public:
  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    const OpAttrs& attrs = call.operation.attrs;
    if (call.types.empty()) {
      return nodewise::Evaluate(attrs, std::move(call.inputs), call.wanted,
                                options);
    }
    return EvaluateChecked(attrs, std::move(call.inputs), call.types,
                           call.wanted, options);
  }
};

}  // namespace

const Evaluator& ReferenceEvaluator() {
  static const RowEvaluator evaluator;
  return evaluator;
}

absl::Status MakeReadable(NDArray* tensor) {
  if (!tensor->defined()) return absl::OkStatus();
  const auto address = reinterpret_cast<uintptr_t>(tensor->data());
  const size_t width = std::max<size_t>(1, ElementBytes(tensor->dtype()));
  if (DeviceTypeOf(tensor->device()) == kDLCPU && IsCompact(**tensor) &&
      address % width == 0) {
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(*tensor, tensor->CopyToHost());
  return absl::OkStatus();
}

}  // namespace nodewise
