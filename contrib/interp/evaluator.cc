#include "nodewise/interp/evaluator.h"

#include <utility>

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

}  // namespace nodewise
