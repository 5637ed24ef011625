// Loading a model: from its file to a target that executors run.

#include <utility>

#include "apps/nodewise/loaded_target.h"
#include "fmt/format.h"
#include "nodewise/lower/lower.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Gives a network the sizes that the inputs at hand have. What does not fit
// stays as it is: whoever collects the inputs says what is wrong with it.
void BindSizes(absl::Span<const VmInputType> given, Network* network) {
  for (const VmInputType& type : given) {
    const auto id = network->FindValue(type.name);
    if (!id.ok()) continue;
    const auto is_open = [&](size_t side) {
      const TensorType& known = network->value(*id).type;
      return network->value(*id).kind == NetworkValue::Kind::kInput &&
             known.has_rank() && known.shape->size() == type.shape.size() &&
             !(*known.shape)[side].is_known();
    };
    for (size_t i = 0; i < type.shape.size(); ++i) {
      if (!is_open(i)) continue;
      TensorType wanted = network->value(*id).type;
      const std::string name = (*wanted.shape)[i].name();
      (*wanted.shape)[i] = Dim(type.shape[i]);
      if (name.empty()) {
        network->SetInputType(*id, std::move(wanted)).IgnoreError();
      } else {
        network->BindDim(name, type.shape[i]).IgnoreError();
      }
    }
  }
}

}  // namespace

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
