#include "tests/measure/held_out_region.h"

#include <cstring>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

class OneChanged : public Evaluator {
 public:
  OneChanged(OperationId operation, ChangedOperation change)
      : operation_(operation), change_(std::move(change)) {}

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    if (call.operation.id == operation_) return change_(call, options);
    return ReferenceEvaluator().Evaluate(std::move(call), options);
  }

 private:
  const OperationId operation_;
  const ChangedOperation change_;
};

absl::StatusOr<std::vector<NDArray>> RunWith(
    const Network& network, const EvaluatorMaker& make,
    const std::vector<NDArray>& inputs) {
  const std::unique_ptr<Evaluator> evaluator = make();
  return Interpreter(network, *evaluator).Run(inputs);
}

bool AreSame(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].data(), b[i].data(), a[i].bytes()) != 0) return false;
  }
  return true;
}

}  // namespace

EvaluatorMaker WithChanged(OperationId operation, ChangedOperation change) {
  return [operation, change = std::move(change)] {
    return std::make_unique<OneChanged>(operation, change);
  };
}

absl::StatusOr<Evaluated> EvaluateOn(const OperationCall& call, Tensors inputs,
                                     const EvalArgs::Options& options) {
  return Evaluate(call.operation.attrs, std::move(inputs), call.wanted,
                  options);
}

std::optional<Spoiling> WithEvaluator(std::string what, const FaultPlace& place,
                                      EvaluatorMaker make) {
  const Network& network = place.region->network;
  const auto sound = Interpret(network, place.sound.inputs);
  const auto faulty = RunWith(network, make, place.sound.inputs);
  if (!sound.ok() || !faulty.ok() || AreSame(*sound, *faulty)) return {};
  Spoiling made;
  made.what = std::move(what);
  const auto region = std::make_shared<const Network>(network);
  made.bind = [region, make = std::move(make)](Library&,
                                               const KernelRequest& request) {
    return absl::StatusOr<PackedFunc>(NodeFunction(
        request.num_outputs,
        [region, make](const NodeCall& call) -> absl::Status {
          NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> results,
                                    RunWith(*region, make, call.inputs));
          for (size_t i = 0; i < results.size(); ++i) {
            CopyBytes(results[i], call.outputs[i]);
          }
          return absl::OkStatus();
        }));
  };
  return made;
}

}  // namespace nodewise
