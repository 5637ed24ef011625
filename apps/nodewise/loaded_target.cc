#include "apps/nodewise/loaded_target.h"

#include <utility>

#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/stand_in_option.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/graph/own_attributes.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {

namespace {

// Loads an artefact, and keeps what is read of the inputs meanwhile.
absl::StatusOr<LoadedTarget> LoadCompiled(const TargetOptions& target,
                                          const LoweringOptions& lowering,
                                          const InputOptions& inputs,
                                          InputFiles* input_files) {
  NODEWISE_ASSIGN_OR_RETURN(const Backend backend, BackendOf(lowering));
  NODEWISE_ASSIGN_OR_RETURN(ArtefactFiles files, FilesOf(target));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<DLDevice> devices, DevicesOf(target));
  const auto types = [&]() -> absl::StatusOr<std::vector<VmInputType>> {
    NODEWISE_ASSIGN_OR_RETURN(const auto given, InputFilesOf(inputs));
    return input_files->TypesOf(given);
  };
  LoadedTarget loaded;
  loaded.built_ins = BuiltIns(backend);
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.target, GraphTarget::Load(std::move(files), std::move(devices),
                                       types, loaded.built_ins));
  if (lowering.backend.empty() || HasBuiltInFunctions(loaded.target->graph())) {
    return loaded;
  }
  return absl::InvalidArgumentError(fmt::format(
      "--backend: {} has compiled functions, expected a model or a folder "
      "that convert made",
      loaded.target->name()));
}

absl::StatusOr<LoadedTarget> Load(const LoadOptions& options,
                                  const InputOptions& inputs, OpenSizes open,
                                  InputFiles* input_files, Outcome* outcome) {
  const std::string& target = options.target.target;
  if (IsForeign(target)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: is run by another program, expected an artefact or a model here "
        "(run, dump and locate take such a TARGET)",
        target));
  }
  if (IsModelOrText(target)) {
    return LoadModelTarget(options, inputs, open, input_files, outcome);
  }
  NODEWISE_RETURN_IF_ERROR(CheckNoModelOptions(options.model, target));
  NODEWISE_RETURN_IF_ERROR(CheckNoLoweringOptions(options.lowering, target));
  NODEWISE_RETURN_IF_ERROR(CheckNoPrecisionChoice(options.precision, target));
  return LoadCompiled(options.target, options.lowering, inputs, input_files);
}

// A run of such a graph looks like any other, and its results are those of
// another node.
void NoteLostOutputs(const GraphTarget& target, Outcome* outcome) {
  const auto plan = PlanStorage(
      target.graph(),
      target.devices().empty() ? kDLCPU : target.devices().front().device_type);
  if (!plan.ok()) return;  // No executor can be made, which says why.
  const GraphIndex& index = target.index();
  for (const LostOutput& lost : LostOutputs(target.graph(), *plan)) {
    outcome->notes.push_back(fmt::format(
        "output {} of the graph ({}) is lost: {} is written over it, in "
        "storage {} (nodewise verify shows the memory plan)",
        lost.output, index.TitleOf(lost.entry),
        index.TitleOf(lost.written_over_by),
        target.graph().entry(lost.written_over_by).storage_id));
  }
}

void ShowFiles(const LoadedTarget& loaded, Outcome* outcome) {
  const ArtefactFiles& files = loaded.target->files();
  outcome->json.BeginObject("target");
  if (loaded.network != nullptr) {
    outcome->json.Add("model", files.target);
  } else {
    outcome->json.Add("graph", files.graph);
    outcome->json.Add("library", files.library);
    outcome->json.Add("params", files.params);
    if (!files.function.empty()) {
      outcome->json.Add("function", files.function);
    }
  }
  outcome->json.EndObject();
}

}  // namespace

void AddLoadOptions(OptionList* options, LoadOptions* load,
                    InputOptions* inputs) {
  AddTargetOptions(options, &load->target);
  AddDeviceOption(options, &load->target);
  AddInputOptions(options, inputs);
  AddReferenceOption(options, &load->lowering);
  AddLoweringOptions(options, &load->lowering);
  AddModelOptions(options, &load->model);
  AddOpaqueOption(options, &load->model);
  AddPrecisionOptions(options, &load->precision);
  AddStandInOption(options, &load->stand_ins);
}

absl::StatusOr<LoadedTarget> LoadWithoutInputs(const LoadOptions& options,
                                               const InputOptions& inputs,
                                               OpenSizes open,
                                               InputFiles* input_files,
                                               Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(LoadedTarget loaded,
                            Load(options, inputs, open, input_files, outcome));
  if (loaded.precision != nullptr) {
    outcome->notes.push_back(PrecisionLine(*loaded.precision));
  }
  NODEWISE_RETURN_IF_ERROR(StandIn(options.stand_ins, &loaded));
  if (loaded.target == nullptr) return loaded;
  NoteLostOutputs(*loaded.target, outcome);
  const auto& unknown = loaded.target->unknown_params();
  if (!unknown.empty()) {
    outcome->notes.push_back(
        fmt::format("{}: {} that the graph does not have: {}",
                    loaded.target->WhereParamsAre(),
                    CountOf(unknown.size(), "parameter"), ListOf(unknown, 8)));
  }
  return loaded;
}

absl::StatusOr<LoadedTarget> LoadTarget(const LoadOptions& options,
                                        const InputOptions& inputs,
                                        Outcome* outcome, OpenSizes open) {
  InputFiles input_files;
  NODEWISE_ASSIGN_OR_RETURN(
      LoadedTarget loaded,
      LoadWithoutInputs(options, inputs, open, &input_files, outcome));
  if (loaded.target == nullptr) return loaded;
  DiagnosticList diagnostics;
  loaded.inputs =
      CollectInputs(inputs, loaded.target->inputs(), input_files, &diagnostics);
  if (diagnostics.HasErrors()) outcome->AddErrors(diagnostics);
  return loaded;
}

void ShowTarget(const LoadedTarget& loaded, const InputOptions& options,
                Outcome* outcome) {
  const Graph& graph = loaded.target->graph();
  size_t functions = 0;
  for (const GraphNode& node : graph.nodes) {
    functions += node.kind == GraphNode::Kind::kInput ? 0 : 1;
  }
  outcome->text += Printable(loaded.target->name()) + ": ";
  if (loaded.network != nullptr) {
    outcome->text += fmt::format(
        "{} in ", CountOf(loaded.network->order().size(), "operation"));
  }
  outcome->text += fmt::format("{}, {}\n", CountOf(functions, "function node"),
                               CountOf(graph.heads.size(), "output"));
  ShowFiles(loaded, outcome);
  if (loaded.opaque != nullptr) ShowOpaque(*loaded.opaque, outcome);
  ShowInputs(loaded.target->inputs(), loaded.inputs, options, outcome);
  ShowStandIns(loaded, outcome);
}

void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                const InputOptions& options, Outcome* outcome) {
  if (options.seed.has_value()) outcome->json.Add("seed", *options.seed);
  TextTable table;
  outcome->json.BeginArray("inputs");
  for (const RunInput& input : inputs) {
    const std::string name = list.Name(input.input);
    const absl::Span<const int64_t> shape = input.tensor.shape();
    // A tensor may have an older code of the type that the target names.
    const TensorType type = list.Type(input.input);
    const DLDataType dtype =
        type.has_dtype() ? type.dtype : input.tensor.dtype();
    table.AddRow(
        {"input", name, TypeToString(shape, dtype), "from " + input.from});
    outcome->json.BeginObject();
    outcome->json.Add("name", name);
    outcome->json.Add("dtype", ToString(dtype));
    outcome->json.Add("shape", shape);
    outcome->json.Add("from", input.from);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += table.ToString(0, 0, LineWidth());
}

}  // namespace nodewise
