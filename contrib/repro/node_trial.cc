#include "contrib/repro/node_trial.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

// This kind of runner survives nodes that crash or hang.
constexpr std::string_view kGuarded = "guarded";

Verdict SeverityOf(const ReproOutput& output) {
  if (!output.comparison) return Verdict::kPass;
  return WeighedVerdict(*output.comparison);
}

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
  const bool has_processes =
      std::ranges::count(RunnerKinds(), kGuarded, &RunnerKind::name) > 0;
  return !node_case.library_file.empty() && has_processes ? kGuarded : "plain";
}

// An address differs from run to run: "crashed with SIGSEGV at address 0x10".
std::string_view WithoutAddress(std::string_view what) {
  return what.substr(0, what.find(" at address "));
}

// The test that accuses decides how far an element may be off: the proved
// bound, or the tolerance of the type where no bound is known, or where the
// differences are within their bounds and only wrong together.
std::vector<double> LimitsOf(
    const BoundedTensor& reference,
    const std::optional<TensorComparison>& comparison) {
  const DLDataType dtype = reference.tensor.dtype();
  const Tolerance tolerance = ToleranceOf({Rule::Kind::kByType}, dtype);
  const std::vector<double>& proved = reference.bounds.proved;
  // Where the elements are only wrong together, none of them is beyond its
  // bound, and the bounds would call all of them right.
  const bool is_wrong_together =
      comparison && comparison->verdict() == Verdict::kWarning;
  std::vector<double> limits(static_cast<size_t>(CountOf(reference.tensor)));
  std::vector<double> values(limits.size());
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

// Runs the model, whose results may be off by the same everywhere: its bounds
// would not allow for what the compiler did with its constants.
absl::StatusOr<std::vector<BoundedTensor>> InterpretBeside(
    const Network& network, const ModelBeside& beside,
    const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(auto made, Interpret(network, inputs));
  std::vector<BoundedTensor> bounded;
  for (NDArray& tensor : made) {
    // The distance was measured as a share of the largest number.
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

// Says how far a result is beyond limits that have not been proved. Such a
// limit is measured, and the reason must not call it a bound.
std::string BeyondLimitReason(const NDArray& reference, const NDArray& made,
                              const std::vector<double>& limits) {
  std::vector<double> expected(limits.size()), found(limits.size());
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

// Makes a runner of that kind for the node alone. The graph has no parameters,
// since a case hands them in as inputs.
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

bool IsNonFinite(const ReproOutput& output) {
  return output.comparison->metrics.non_finite() > 0;
}

// Every element costs more than the few operations that may be done with it:
// it is read, bounded and compared.
constexpr double kCostOfElement = 50;
// A node of any size is tried this often: the first and the last run of a case
// that is shrunk change nothing.
constexpr uint64_t kFewestRuns = 5;

// Operators without an estimate count by their elements alone.
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
  if (!node_case.region) return cost;
  return cost + CostOfNetwork(node_case.region->network);
}

// A node that was not run has no output to look at.
bool IsFinite(const NDArray& tensor) {
  if (!tensor.defined()) return true;
  const TensorStats stats = StatsOf(*tensor);
  return stats.nans == 0 && stats.infinities == 0;
}

// Other failures leave something behind that shows only in a run that looks for
// it.
bool IsSeenInRuns(const NodeFailure& failure) {
  return failure.kind != NodeFailure::Kind::kStrayWrite &&
         failure.kind != NodeFailure::Kind::kSideEffect;
}

}  // namespace

bool ReproOutput::is_wrong() const {
  return SeverityOf(*this) == Verdict::kError;
}

const ReproOutput* ReproCase::FindWrong() const {
  const auto worst = std::ranges::max_element(outputs, {}, SeverityOf);
  return worst == outputs.end() || !worst->is_wrong() ? nullptr : &*worst;
}

bool ReproCase::is_shrunk() const {
  return std::ranges::any_of(inputs, [](const ReproInput& input) {
    return input.original.defined() || input.is_simpler;
  });
}

absl::StatusOr<std::unique_ptr<NodeTrial>> NodeTrial::Create(
    const ReproCase& node_case) {
  std::unique_ptr<Runner> runner;
  if (node_case.may_run) {
    NODEWISE_ASSIGN_OR_RETURN(runner,
                              RunnerAlone(node_case, KindOfTrials(node_case)));
  }
  return std::unique_ptr<NodeTrial>(
      new NodeTrial(node_case, std::move(runner)));
}

// The failure counts if it is the node's, of the same kind, and with the same
// words but for addresses.
absl::StatusOr<bool> FailsAsBefore(const ReproCase& node_case,
                                   const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            RunnerAlone(node_case, kGuarded));
  const auto failure =
      FailureOf(runner
                    ->Run(NamedInputs(node_case, inputs),
                          {.node_limit_ms = node_case.node_limit_ms})
                    .status());
  const std::string node =
      GraphIndex(node_case.graph).KeyOf(NodeId{node_case.graph.heads[0].node});
  return failure && failure->node == node &&
         failure->kind == node_case.failure->kind &&
         WithoutAddress(failure->what) ==
             WithoutAddress(node_case.failure->what);
}

void CheckFailsAlone(ReproCase* node_case) {
  if (!IsSeenInRuns(*node_case->failure)) return;
  const auto fails = FailsAsBefore(*node_case, TensorsOf(node_case->inputs));
  if (fails.ok()) node_case->fails_alone = *fails;
}

absl::StatusOr<std::vector<NDArray>> NodeTrial::RunCandidate(
    const std::vector<NDArray>& inputs) {
  std::vector<NDArray> made(case_.outputs.size());
  if (runner_ == nullptr) return made;
  NODEWISE_ASSIGN_OR_RETURN(
      RunResult result, runner_->Run(NamedInputs(case_, inputs),
                                     {.node_limit_ms = case_.node_limit_ms}));
  for (size_t slot = 0; slot < made.size(); ++slot) {
    made[slot] = std::move(result.outputs[slot].tensor);
  }
  return made;
}

// The reference comes first, so that the candidate never gets what the operator
// refuses.
absl::StatusOr<std::vector<ReproOutput>> NodeTrial::Run(
    const std::vector<NDArray>& inputs) {
  std::vector<BoundedTensor> reference;
  if (case_.beside) {
    NODEWISE_ASSIGN_OR_RETURN(
        reference,
        InterpretBeside(case_.region->network, *case_.beside, inputs));
  } else if (case_.region) {
    NODEWISE_ASSIGN_OR_RETURN(
        reference, InterpretCarryingBounds(case_.region->network, inputs));
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto made, RunCandidate(inputs));
  std::vector<ReproOutput> outputs;
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    const std::string& role = case_.outputs[slot].role;
    if (slot >= reference.size()) {
      outputs.push_back({role, made[slot]});
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(
        ReproOutput output,
        ComparedOutput(case_.node, slot, role, reference[slot], made[slot]));
    if (case_.beside && output.is_wrong()) {
      output.comparison->judgement.reason =
          BeyondLimitReason(output.reference, output.candidate, output.limits);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

absl::StatusOr<ReproOutput> ComparedOutput(const std::string& node,
                                           uint32_t slot, std::string role,
                                           const BoundedTensor& reference,
                                           const NDArray& made) {
  ReproOutput output{std::move(role), made, reference.tensor};
  if (made.defined()) {
    const TensorKey key{node, slot, TensorRole::kOutput, "reference"};
    TensorItem item{key};
    item.tensor = reference.tensor.tensor();
    item.proved_bounds = reference.bounds.proved;
    item.expected_bounds = reference.bounds.expected;
    NODEWISE_ASSIGN_OR_RETURN(output.comparison,
                              CompareTensors(item, *made, {.describe = true}));
  }
  output.limits = LimitsOf(reference, output.comparison);
  return output;
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

// The first pattern is the one that says most.
FailureKind KindOf(const ReproCase& node_case) {
  const ReproOutput* const wrong = node_case.FindWrong();
  FailureKind kind;
  kind.output = static_cast<size_t>(wrong - node_case.outputs.data());
  kind.is_non_finite = IsNonFinite(*wrong);
  const auto& details = wrong->comparison->details;
  if (details && !details->patterns.empty()) {
    kind.pattern = details->patterns[0].shape;
  }
  return kind;
}

bool Shows(const std::vector<ReproOutput>& outputs, const FailureKind& kind) {
  const ReproOutput& output = outputs[kind.output];
  if (!output.is_wrong() || IsNonFinite(output) != kind.is_non_finite) {
    return false;
  }
  const auto& details = output.comparison->details;
  return !kind.pattern ||
         (details && std::ranges::count(details->patterns, *kind.pattern,
                                        &FailurePattern::shape) > 0);
}

bool Hangs(const ReproCase& node_case) {
  return node_case.failure &&
         node_case.failure->kind == NodeFailure::Kind::kHang;
}

uint64_t RunBudget(const ShrinkOptions& options, const ReproCase& node_case) {
  const uint64_t most = HangBudget(options, node_case);
  const double afforded = options.most_cost / CostOfRun(node_case);
  if (!(afforded < static_cast<double>(options.most_runs))) {
    return std::min(options.most_runs, most);
  }
  return std::min({options.most_runs, most,
                   std::max(kFewestRuns, static_cast<uint64_t>(afforded))});
}

// Each run of a node that hangs takes all the time that a node has.
uint64_t HangBudget(const ShrinkOptions& options, const ReproCase& node_case) {
  if (!Hangs(node_case)) return options.most_runs;
  return static_cast<uint64_t>(options.most_hanging_ms /
                               std::max<int64_t>(node_case.node_limit_ms, 1));
}

SameFailure::SameFailure(const ReproCase& node_case, const OpSet& operators)
    : operators_(operators),
      can_be_tried_(node_case.failure
                        ? IsSeenInRuns(*node_case.failure) &&
                              node_case.fails_alone.value_or(false)
                        : !node_case.harms_others) {
  if (node_case.FindWrong() != nullptr) wrong_ = KindOf(node_case);
  for (const ReproOutput& output : node_case.outputs) {
    are_finite_.push_back(IsFinite(output.candidate));
  }
}

// A node that is right must stay finite where it was, or else drawn numbers
// would show something else than the given ones did.
bool SameFailure::IsFiniteAsBefore(
    const std::vector<ReproOutput>& outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsFinite(outputs[i].candidate) != are_finite_[i]) return false;
  }
  return true;
}

absl::Status SameFailure::Judge(ReproCase* node_case) const {
  // A node that ends its process runs in one of its own, and never here.
  if (node_case->failure) node_case->may_run = false;
  // The reference computes first: the candidate gets nothing that the operator
  // refuses.
  return node_case->plan_fault ? JudgePlanFault(operators_, node_case)
                               : JudgeCase(node_case);
}

absl::StatusOr<bool> SameFailure::IsIn(ReproCase* other) const {
  NODEWISE_RETURN_IF_ERROR(Judge(other));
  if (other->failure) return FailsAsBefore(*other, TensorsOf(other->inputs));
  if (wrong_) return Shows(other->outputs, *wrong_);
  return other->FindWrong() == nullptr && IsFiniteAsBefore(other->outputs);
}

namespace fs = std::filesystem;

// The system gives one file one set of variables per process, however often it
// is loaded; a copy is another file.
absl::StatusOr<Ref<Library>> LoadPrivateCopy(const ArtefactFiles& files) {
  NODEWISE_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                            TemporaryFolder::Create("nodewise_apart"));
  const fs::path copy =
      fs::path(folder.path()) / fs::path(files.library).filename();
  std::error_code error;
  if (!fs::copy_file(files.library, copy, error)) {
    return Unavailable(
        "{}: cannot be copied to a temporary folder: {} (set TMPDIR to a "
        "folder with room)",
        files.library, error.message());
  }
  // The code stays mapped when its file is gone.
  ArtefactFiles apart = files;
  apart.library = copy.string();
  if (apart.target == files.library) apart.target = apart.library;
  NODEWISE_ASSIGN_OR_RETURN(const Artefact artefact, LoadArtefact(apart));
  return artefact.library;
}

}  // namespace nodewise
