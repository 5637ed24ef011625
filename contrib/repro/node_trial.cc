#include "contrib/repro/node_trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/node_failure.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr std::string_view kGuarded = "guarded";

Verdict SeverityOf(const ReproOutput& output) {
  if (!output.comparison.has_value()) return Verdict::kPass;
  return WeighedVerdict(*output.comparison);
}

absl::StatusOr<TensorComparison> CompareWithReference(
    const std::string& node, uint32_t slot, const BoundedTensor& reference,
    const NDArray& made) {
  const TensorKey key{node, slot, TensorRole::kOutput, "reference"};
  TensorItem item{key};
  item.tensor = reference.tensor.tensor();
  item.proved_bounds = reference.bounds.proved;
  item.expected_bounds = reference.bounds.expected;
  CompareOptions options;
  options.describe = true;
  return CompareTensors(item, *made, options);
}

// What the node reads, and what nodes before it do.
std::vector<NamedTensor> NamedInputs(const ReproCase& node_case,
                                     const std::vector<NDArray>& inputs) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    named.push_back({node_case.inputs[i].name, inputs[i]});
  }
  for (const ReproInput& input : node_case.earlier_inputs) {
    named.push_back({input.name, input.tensor});
  }
  return named;
}

// In builds with USE_PROFILER, functions of a file get a process of their own.
std::string_view KindOfTrials(const ReproCase& node_case) {
  for (const RunnerKind& kind : RunnerKinds()) {
    if (!node_case.library_file.empty() && kind.name == kGuarded) {
      return kGuarded;
    }
  }
  return "plain";
}

// An address differs from run to run: "crashed with SIGSEGV at address 0x10".
std::string_view WithoutAddress(std::string_view what) {
  return what.substr(0, what.find(" at address "));
}

// What accuses decides how far an element may be off: the proved bound, or the
// tolerance of the type where no bound is known, or where the differences are
// within their bounds and only wrong together.
std::vector<double> LimitsOf(
    const BoundedTensor& reference,
    const std::optional<TensorComparison>& comparison) {
  const DLDataType dtype = reference.tensor.dtype();
  const Tolerance tolerance = ToleranceOf({Rule::Kind::kByType}, dtype);
  const std::vector<double>& proved = reference.bounds.proved;
  const bool is_wrong_together =
      comparison.has_value() && comparison->verdict() == Verdict::kWarning;
  const auto count = NumElements(reference.tensor.shape());
  std::vector<double> limits(static_cast<size_t>(count.value_or(0)), 0);
  std::vector<double> values(limits.size(), 0);
  if (dtype.lanes != 1 || !DecodeToDoubles(dtype, reference.tensor.data(),
                                           values.size(), values.data())) {
    return limits;
  }
  for (size_t i = 0; i < limits.size(); ++i) {
    const bool has_bound =
        i < proved.size() && !std::isnan(proved[i]) && !is_wrong_together;
    if (has_bound) {
      limits[i] = proved[i];
    } else if (IsFloat(dtype) && std::isfinite(values[i])) {
      limits[i] =
          tolerance.absolute + tolerance.relative * std::fabs(values[i]);
    }
  }
  return limits;
}

// What the model makes, which may be off by the same everywhere: its bounds
// would not allow for what the compiler did with its constants.
absl::StatusOr<std::vector<BoundedTensor>> InterpretBeside(
    const Network& network, const ModelBeside& beside,
    const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> made,
                            Interpret(network, inputs));
  std::vector<BoundedTensor> bounded;
  for (NDArray& tensor : made) {
    const TensorStats stats = StatsOf(*tensor);
    const double largest = std::max(std::fabs(stats.min), std::fabs(stats.max));
    std::vector<double> limits(static_cast<size_t>(CountOf(tensor)),
                               beside.clean_distance * largest);
    for (size_t i = 0; i < beside.is_padding.size(); ++i) {
      if (beside.is_padding[i]) {
        limits[i] = std::numeric_limits<double>::infinity();
      }
    }
    bounded.push_back({std::move(tensor), {limits, limits}});
  }
  return bounded;
}

// Says how far a result is beyond limits that have not been proved.
std::string ReasonBeside(const NDArray& reference, const NDArray& made,
                         const std::vector<double>& limits) {
  std::vector<double> expected(limits.size(), 0);
  std::vector<double> found(limits.size(), 0);
  LoadDoubles(reference, 0, CountOf(reference), expected.data());
  LoadDoubles(made, 0, CountOf(made), found.data());
  double most = 0;
  size_t beyond = 0;
  for (size_t i = 0; i < limits.size(); ++i) {
    const double off = std::fabs(found[i] - expected[i]);
    if (off <= limits[i] || found[i] == expected[i]) continue;
    ++beyond;
    if (limits[i] > 0) most = std::max(most, off / limits[i]);
  }
  return fmt::format(
      "{}{} of {} elements beyond it",
      most > 0 ? fmt::format("{:.2g} x what rounding explains; ", most)
               : "rounding explains nothing; ",
      beyond, limits.size());
}

// Makes a runner of that kind for the node alone.
absl::StatusOr<std::unique_ptr<Runner>> RunnerAlone(const ReproCase& node_case,
                                                    std::string_view kind) {
  NODEWISE_ASSIGN_OR_RETURN(
      auto target, GraphTarget::FromArtefact(
                       node_case.node + " alone",
                       {node_case.graph, node_case.library, Params()}, {kCpu}));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf(kind, {target->name(), std::move(target)}));
  return maker();
}

}  // namespace

bool ReproOutput::is_wrong() const {
  return SeverityOf(*this) == Verdict::kError;
}

const ReproOutput* ReproCase::FindWrong() const {
  const auto worst =
      std::max_element(outputs.begin(), outputs.end(),
                       [](const ReproOutput& a, const ReproOutput& b) {
                         return SeverityOf(a) < SeverityOf(b);
                       });
  return worst == outputs.end() || !worst->is_wrong() ? nullptr : &*worst;
}

bool ReproCase::is_shrunk() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const ReproInput& input) {
    return input.original.defined() || input.is_simpler;
  });
}

absl::StatusOr<std::unique_ptr<NodeTrial>> NodeTrial::Create(
    const ReproCase& node_case) {
  if (!node_case.may_run) {
    return std::unique_ptr<NodeTrial>(new NodeTrial(node_case, nullptr));
  }
  NODEWISE_ASSIGN_OR_RETURN(auto runner,
                            RunnerAlone(node_case, KindOfTrials(node_case)));
  return std::unique_ptr<NodeTrial>(
      new NodeTrial(node_case, std::move(runner)));
}

absl::StatusOr<bool> FailsAsBefore(const ReproCase& node_case,
                                   const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            RunnerAlone(node_case, kGuarded));
  RunOptions options;
  options.node_limit_ms = node_case.node_limit_ms;
  const auto failure =
      FailureOf(runner->Run(NamedInputs(node_case, inputs), options).status());
  const std::string node =
      GraphIndex(node_case.graph).KeyOf(NodeId{node_case.graph.heads[0].node});
  return failure.has_value() && failure->node == node &&
         failure->kind == node_case.failure->kind &&
         WithoutAddress(failure->what) ==
             WithoutAddress(node_case.failure->what);
}

void CheckFailsAlone(ReproCase* node_case) {
  // These failures show only in a run that looks for them.
  if (node_case->failure->kind == NodeFailure::Kind::kStrayWrite ||
      node_case->failure->kind == NodeFailure::Kind::kSideEffect) {
    return;
  }
  const auto fails = FailsAsBefore(*node_case, TensorsOf(node_case->inputs));
  if (fails.ok()) node_case->fails_alone = *fails;
}

absl::StatusOr<std::vector<NDArray>> NodeTrial::RunCandidate(
    const std::vector<NDArray>& inputs) {
  std::vector<NDArray> made(case_.outputs.size());
  if (runner_ == nullptr) return made;
  RunOptions options;
  options.node_limit_ms = case_.node_limit_ms;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                            runner_->Run(NamedInputs(case_, inputs), options));
  for (size_t slot = 0; slot < made.size(); ++slot) {
    made[slot] = std::move(result.outputs[slot].tensor);
  }
  return made;
}

absl::StatusOr<std::vector<ReproOutput>> NodeTrial::Run(
    const std::vector<NDArray>& inputs) {
  std::vector<BoundedTensor> reference;
  if (case_.beside.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        reference,
        InterpretBeside(case_.region->network, *case_.beside, inputs));
  } else if (case_.region.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        reference, InterpretCarryingBounds(case_.region->network, inputs));
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                            RunCandidate(inputs));
  std::vector<ReproOutput> outputs;
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    ReproOutput output;
    output.role = case_.outputs[slot].role;
    output.candidate = made[slot];
    if (slot < reference.size()) {
      output.reference = reference[slot].tensor;
      if (made[slot].defined()) {
        NODEWISE_ASSIGN_OR_RETURN(
            output.comparison,
            CompareWithReference(case_.node, slot, reference[slot],
                                 made[slot]));
      }
      output.limits = LimitsOf(reference[slot], output.comparison);
      if (case_.beside.has_value() && output.is_wrong()) {
        output.comparison->judgement.reason =
            ReasonBeside(output.reference, output.candidate, output.limits);
      }
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

absl::StatusOr<TensorComparison> CompareByType(const std::string& node,
                                               uint32_t slot,
                                               const NDArray& reference,
                                               const NDArray& made) {
  return CompareWithReference(node, slot, BoundedTensor{reference, {}}, made);
}

std::vector<double> LimitsByType(const NDArray& reference) {
  return LimitsOf(BoundedTensor{reference, {}}, std::nullopt);
}

std::vector<NDArray> TensorsOf(const std::vector<ReproInput>& inputs) {
  std::vector<NDArray> tensors;
  for (const ReproInput& input : inputs) tensors.push_back(input.tensor);
  return tensors;
}

absl::Status JudgeCase(ReproCase* node_case) {
  NODEWISE_ASSIGN_OR_RETURN(const auto trial, NodeTrial::Create(*node_case));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<ReproOutput> outputs,
                            trial->Run(TensorsOf(node_case->inputs)));
  node_case->outputs = std::move(outputs);
  return absl::OkStatus();
}

}  // namespace nodewise
