#include "apps/nodewise/target_text.h"

#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/stand_in_option.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

void ShowFiles(const Session& session, Outcome* outcome) {
  const ArtefactFiles& files = session.target->files();
  outcome->json.BeginObject("target");
  if (session.network != nullptr) {
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

void ShowTarget(const Session& session, const InputOptions& options,
                Outcome* outcome) {
  const Graph& graph = session.target->graph();
  size_t functions = 0;
  for (const GraphNode& node : graph.nodes) {
    functions += node.kind == GraphNode::Kind::kInput ? 0 : 1;
  }
  outcome->text += Printable(session.target->name()) + ": ";
  if (session.network != nullptr) {
    outcome->text += fmt::format(
        "{} in ", CountOf(session.network->order().size(), "operation"));
  }
  outcome->text += fmt::format("{}, {}\n", CountOf(functions, "function node"),
                               CountOf(graph.heads.size(), "output"));
  ShowFiles(session, outcome);
  if (session.opaque != nullptr) ShowOpaque(*session.opaque, outcome);
  ShowInputs(session.target->inputs(), session.inputs, options, outcome);
  ShowStandIns(session, outcome);
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
