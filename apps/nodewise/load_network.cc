// Loading a model: from its file to a target that executors run.

#include <optional>
#include <utility>

#include "apps/nodewise/interpreted_run.h"
#include "apps/nodewise/loaded_target.h"
#include "fmt/format.h"
#include "nodewise/lower/lower.h"
#include "nodewise/op/random_seed.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

namespace {

size_t CountRandom(const Network& network) {
  size_t count = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (DrawsRandomNumbers(operation.def(), operation.inputs.size())) {
      ++count;
    }
    for (const AttrField& field : operation.def().fields) {
      if (!field.is_graph) continue;
      const auto value = field.get(operation.attrs.get());
      if (!value.has_value()) continue;
      count += CountRandom(*std::get<Subgraph>(*value).body);
    }
  }
  return count;
}

void ShowSeed(const Network& network, const ModelOptions& options,
              Outcome* outcome) {
  const size_t count = CountRandom(network);
  if (count == 0) return;
  outcome->notes.push_back(fmt::format(
      "{} random numbers: those without a seed of their own draw from seed {} "
      "(--seed)",
      count == 1 ? "1 operation draws"
                 : fmt::format("{} operations draw", count),
      options.seed.value_or(kUsualSeed)));
}

// Reads the model, with the sizes that the inputs at hand have. None if it has
// faults, which are in the outcome then.
absl::StatusOr<std::optional<Network>> ReadNetwork(const LoadOptions& options,
                                                   const InputOptions& inputs,
                                                   InputFiles* input_files,
                                                   Outcome* outcome) {
  DiagnosticList diagnostics;
  auto network = LoadModel(options.target.target, options.model, &diagnostics);
  if (!network.ok()) {
    if (!diagnostics.HasErrors()) return network.status();
    outcome->AddErrors(diagnostics);
    return std::nullopt;
  }
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    outcome->notes.push_back(diagnostic.ToString());
  }
  ShowSeed(*network, options.model, outcome);
  SetFrozen(options.model, input_files);
  auto files = InputFilesOf(inputs);
  if (files.ok()) {
    const auto samples = CalibrationFilesOf(options.precision);
    files->insert(files->end(), samples.begin(), samples.end());
  }
  const auto given = files.ok() ? input_files->TypesOf(*files) : files.status();
  if (given.ok()) BindSizes(*given, &*network);
  return *std::move(network);
}

// Reads the model again, with the types that opaque operations turn out to
// make, if there are some that it does not state.
absl::StatusOr<std::optional<Network>> WithFoundTypes(
    const LoadOptions& options, const InputOptions& inputs, Network network,
    InputFiles* input_files) {
  if (!HasOpenTypes(network)) return network;
  DiagnosticList diagnostics;
  const auto list = ListInputs(network);
  const std::vector<RunInput> given =
      CollectInputs(inputs, *list, *input_files, &diagnostics, &HowToSize);
  // Whoever needs the inputs says what is wrong with them.
  if (diagnostics.HasErrors()) return network;
  LoadOptions again = options;
  NODEWISE_ASSIGN_OR_RETURN(again.model.opaque_types,
                            FindOpenTypes(network, NameInputs(*list, given)));
  Outcome told;
  return ReadNetwork(again, inputs, input_files, &told);
}

}  // namespace

absl::StatusOr<LoadedTarget> LoadModelNetwork(const LoadOptions& options,
                                              const InputOptions& inputs,
                                              InputFiles* input_files,
                                              Outcome* outcome) {
  LoadedTarget loaded;
  NODEWISE_ASSIGN_OR_RETURN(auto network,
                            ReadNetwork(options, inputs, input_files, outcome));
  if (!network.has_value()) return loaded;
  OpaqueReport opaque;
  if (!options.keeps_opaque) {
    auto taken = TakeOpaque(options.model, &*network);
    if (!taken.ok()) return At(options.target.target, taken.status());
    opaque = *std::move(taken);
  }
  if (!opaque.operators.empty() && !opaque.program.empty()) {
    if (!options.precision.precision.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "--precision: cannot be lowered where {} runs operations, expected "
          "no --opaque",
          opaque.program));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        network,
        WithFoundTypes(options, inputs, *std::move(network), input_files));
    if (network.has_value()) NODEWISE_RETURN_IF_ERROR(OrderOpaque(&*network));
  }
  loaded.opaque = std::make_shared<const OpaqueReport>(std::move(opaque));
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.precision, ChangePrecision(options.precision, &*network, outcome));
  if (outcome->status != Outcome::Status::kOk) return loaded;
  if (!options.passes.empty()) {
    auto ran = RunModelPasses(options.passes, &*network);
    if (!ran.ok()) return At(options.target.target, ran.status());
    loaded.passes = std::make_shared<const PassesReport>(*std::move(ran));
  }
  loaded.network = std::make_shared<const Network>(*std::move(network));
  return loaded;
}

absl::StatusOr<LoadedTarget> LoadModelTarget(const LoadOptions& options,
                                             const InputOptions& inputs,
                                             OpenSizes open,
                                             InputFiles* input_files,
                                             Outcome* outcome) {
  const std::string& path = options.target.target;
  const LoweringOptions& lowering = options.lowering;
  NODEWISE_RETURN_IF_ERROR(CheckModelTarget(options.target));
  NODEWISE_ASSIGN_OR_RETURN(const Backend backend, BackendOf(lowering));
  NODEWISE_ASSIGN_OR_RETURN(
      LoadedTarget loaded,
      LoadModelNetwork(options, inputs, input_files, outcome));
  if (loaded.network == nullptr) return loaded;
  auto lowered = Lower(*loaded.network, path + ": graph JSON",
                       LowerOptionsOf(lowering, backend));
  if (absl::IsUnimplemented(lowered.status()) && open == OpenSizes::kKept) {
    outcome->notes.push_back(fmt::format("{}: {}; so the interpreter runs it",
                                         path, MessageOf(lowered.status())));
    return loaded;
  }
  if (!lowered.ok()) return At(path, lowered.status());
  loaded.built_ins = BuiltIns(backend, lowered->kernels);
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.target,
      GraphTarget::FromArtefact(path,
                                {std::move(lowered->graph), loaded.built_ins,
                                 Params{std::move(lowered->params)}},
                                {kCpu}));
  return loaded;
}

}  // namespace nodewise
