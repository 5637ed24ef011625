// Loading a model: from its file to a target that executors run.

#include <utility>

#include "apps/nodewise/loaded_target.h"
#include "fmt/format.h"
#include "nodewise/lower/lower.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<LoadedTarget> LoadModelNetwork(const LoadOptions& options,
                                              const InputOptions& inputs,
                                              InputFiles* input_files,
                                              Outcome* outcome) {
  LoadedTarget loaded;
  DiagnosticList diagnostics;
  auto network = LoadModel(options.target.target, options.model, &diagnostics);
  if (!network.ok()) {
    if (!diagnostics.HasErrors()) return network.status();
    outcome->AddErrors(diagnostics);
    return loaded;
  }
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    outcome->notes.push_back(diagnostic.ToString());
  }
  SetFrozen(options.model, input_files);
  auto files = InputFilesOf(inputs);
  if (files.ok()) {
    const auto samples = CalibrationFilesOf(options.precision);
    files->insert(files->end(), samples.begin(), samples.end());
  }
  const auto given = files.ok() ? input_files->TypesOf(*files) : files.status();
  if (given.ok()) BindSizes(*given, &*network);
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.precision, ChangePrecision(options.precision, &*network, outcome));
  if (outcome->status != Outcome::Status::kOk) return loaded;
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
  loaded.built_ins = BuiltIns(backend);
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.target,
      GraphTarget::FromArtefact(path,
                                {std::move(lowered->graph), loaded.built_ins,
                                 Params{std::move(lowered->params)}},
                                {kCpu}));
  return loaded;
}

}  // namespace nodewise
