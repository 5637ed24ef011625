#include "apps/nodewise/loaded_target.h"

#include <utility>

#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {

absl::StatusOr<LoadedTarget> LoadTarget(const TargetOptions& target,
                                        const InputOptions& inputs,
                                        Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(ArtefactFiles files, FilesOf(target));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<DLDevice> devices, DevicesOf(target));
  InputFiles input_files;
  const auto types = [&]() -> absl::StatusOr<std::vector<VmInputType>> {
    NODEWISE_ASSIGN_OR_RETURN(const auto given, InputFilesOf(inputs));
    return input_files.TypesOf(given);
  };
  LoadedTarget loaded;
  NODEWISE_ASSIGN_OR_RETURN(
      loaded.target,
      GraphTarget::Load(std::move(files), std::move(devices), types));
  const auto& unknown = loaded.target->unknown_params();
  if (!unknown.empty()) {
    outcome->notes.push_back(
        fmt::format("{}: {} that the graph does not have: {}",
                    loaded.target->WhereParamsAre(),
                    CountOf(unknown.size(), "parameter"), ListOf(unknown, 8)));
  }
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
    functions += node.kind == GraphNode::Kind::kFunction ? 1 : 0;
  }
  const ArtefactFiles& files = loaded.target->files();
  outcome->text += fmt::format("{}: {}, {}\n", Printable(files.target),
                               CountOf(functions, "function node"),
                               CountOf(graph.heads.size(), "output"));
  outcome->json.BeginObject("target");
  outcome->json.Add("graph", files.graph);
  outcome->json.Add("library", files.library);
  outcome->json.Add("params", files.params);
  if (!files.function.empty()) outcome->json.Add("function", files.function);
  outcome->json.EndObject();
  ShowInputs(loaded.target->inputs(), loaded.inputs, options, outcome);
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
