#include "contrib/repro/same_failure.h"

#include <algorithm>

#include "contrib/repro/node_trial.h"
#include "contrib/repro/plan_fault_case.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

bool HasPattern(const TensorComparison& comparison, FailureShape shape) {
  if (!comparison.details.has_value()) return false;
  const auto& patterns = comparison.details->patterns;
  return std::any_of(
      patterns.begin(), patterns.end(),
      [shape](const FailurePattern& found) { return found.shape == shape; });
}

bool IsNonFinite(const ReproOutput& output) {
  return output.comparison->metrics.non_finite() > 0;
}

// Every element costs more than the few operations that may be done with it:
// it is read, bounded and compared.
constexpr double kCostOfElement = 50;
constexpr uint64_t kFewestRuns = 5;

double CostOfNetwork(const Network& network) {
  double cost = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (operation.def().flops == nullptr) continue;
    const std::vector<InputInfo> inputs = network.InputsOf(id);
    std::vector<OutputInfo> outputs;
    for (const ValueId output : operation.outputs) {
      outputs.emplace_back(output == kNoValue ? TensorType()
                                              : network.value(output).type);
    }
    cost +=
        operation.def().flops(operation.attrs.get(), Inputs(inputs), outputs);
  }
  return cost;
}

double CostOfRun(const ReproCase& node_case) {
  double cost = 0;
  for (const GraphEntry& entry : node_case.graph.entries) {
    const auto elements = NumElements(entry.shape);
    cost += kCostOfElement * static_cast<double>(elements.value_or(0));
  }
  if (!node_case.region.has_value()) return cost;
  return cost + CostOfNetwork(node_case.region->network);
}

bool IsFinite(const NDArray& tensor) {
  if (!tensor.defined()) return true;
  const TensorStats stats = StatsOf(*tensor);
  return stats.nans == 0 && stats.infinities == 0;
}

// These leave something behind that a run of the node does not show.
bool IsSeenInRuns(const ReproCase& node_case) {
  if (!node_case.failure.has_value()) return !node_case.harms_others;
  const NodeFailure::Kind kind = node_case.failure->kind;
  return kind != NodeFailure::Kind::kStrayWrite &&
         kind != NodeFailure::Kind::kSideEffect &&
         node_case.fails_alone.value_or(false);
}

}  // namespace

FailureKind KindOf(const ReproCase& node_case) {
  const ReproOutput* const wrong = node_case.FindWrong();
  FailureKind kind;
  kind.output = static_cast<size_t>(wrong - node_case.outputs.data());
  kind.is_non_finite = IsNonFinite(*wrong);
  const auto& details = wrong->comparison->details;
  if (details.has_value() && !details->patterns.empty()) {
    kind.pattern = details->patterns[0].shape;
  }
  return kind;
}

bool Shows(const std::vector<ReproOutput>& outputs, const FailureKind& kind) {
  const ReproOutput& output = outputs[kind.output];
  return output.is_wrong() && IsNonFinite(output) == kind.is_non_finite &&
         (!kind.pattern.has_value() ||
          HasPattern(*output.comparison, *kind.pattern));
}

uint64_t AffordedRuns(const ShrinkOptions& options,
                      const ReproCase& node_case) {
  const double afforded = options.most_cost / CostOfRun(node_case);
  if (!(afforded < static_cast<double>(options.most_runs))) {
    return options.most_runs;
  }
  return std::min(options.most_runs,
                  std::max(kFewestRuns, static_cast<uint64_t>(afforded)));
}

// Each run of a node that hangs takes all the time that a node has.
uint64_t AffordedHangs(const ShrinkOptions& options,
                       const ReproCase& node_case) {
  const bool hangs = node_case.failure.has_value() &&
                     node_case.failure->kind == NodeFailure::Kind::kHang;
  if (!hangs) return options.most_runs;
  return static_cast<uint64_t>(options.most_hanging_ms /
                               std::max<int64_t>(node_case.node_limit_ms, 1));
}

SameFailure::SameFailure(const ReproCase& node_case, const OpSet& operators)
    : operators_(operators), can_be_tried_(IsSeenInRuns(node_case)) {
  if (node_case.FindWrong() != nullptr) wrong_ = KindOf(node_case);
  for (const ReproOutput& output : node_case.outputs) {
    are_finite_.push_back(IsFinite(output.candidate));
  }
}

bool SameFailure::IsAsFinite(const std::vector<ReproOutput>& outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsFinite(outputs[i].candidate) != are_finite_[i]) return false;
  }
  return true;
}

absl::Status SameFailure::Judge(ReproCase* node_case) const {
  // A node that ends its process runs in one of its own, and never here.
  if (node_case->failure.has_value()) node_case->may_run = false;
  // The reference computes first: the candidate gets nothing that the operator
  // refuses.
  return node_case->plan_fault.has_value()
             ? JudgePlanFault(operators_, node_case)
             : JudgeCase(node_case);
}

absl::StatusOr<bool> SameFailure::IsIn(ReproCase* other) const {
  NODEWISE_RETURN_IF_ERROR(Judge(other));
  if (other->failure.has_value()) {
    return FailsAsBefore(*other, TensorsOf(other->inputs));
  }
  if (wrong_.has_value()) return Shows(other->outputs, *wrong_);
  return other->FindWrong() == nullptr && IsAsFinite(other->outputs);
}

}  // namespace nodewise
