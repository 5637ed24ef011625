#include "nodewise/report/target_report.h"

#include "fmt/format.h"
#include "nodewise/report/model_report.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

void ShowFiles(const Session& session, Report* report) {
  const ArtefactFiles& files = session.target->files();
  report->json.BeginObject("target");
  if (session.network != nullptr) {
    report->json.Add("model", files.target);
  } else {
    report->json.Add("graph", files.graph);
    report->json.Add("library", files.library);
    report->json.Add("params", files.params);
    if (!files.function.empty()) {
      report->json.Add("function", files.function);
    }
  }
  report->json.EndObject();
}

void ShowGraph(const Session& session, Report* report) {
  const Graph& graph = session.target->graph();
  size_t functions = 0;
  for (const GraphNode& node : graph.nodes) {
    functions += node.kind == GraphNode::Kind::kInput ? 0 : 1;
  }
  report->text += Printable(session.target->name()) + ": ";
  if (session.network != nullptr) {
    report->text += fmt::format(
        "{} in ", CountOf(session.network->order().size(), "operation"));
  }
  report->text += fmt::format("{}, {}\n", CountOf(functions, "function node"),
                              CountOf(graph.heads.size(), "output"));
  ShowFiles(session, report);
}

// A network that stays one: another program runs it, or the interpreter.
void ShowNetwork(const Session& session, Report* report) {
  const Network& network = *session.network;
  report->text += fmt::format("{}: {}, {}\n", Printable(session.name),
                              CountOf(network.order().size(), "operation"),
                              CountOf(network.outputs().size(), "output"));
  report->json.BeginObject("target");
  if (session.program != nullptr) {
    report->json.Add("foreign", session.name);
    report->json.Add("command", session.program->command);
  } else {
    report->json.Add("model", session.name);
  }
  report->json.EndObject();
}

void ShowStandIns(const Session& session, Report* report) {
  if (session.stand_ins.empty()) return;
  report->text += fmt::format("{} computed by the reference: {}\n",
                              CountOf(session.stand_ins.size(), "node"),
                              ListOf(session.stand_ins));
  report->json.Add("stand_ins", session.stand_ins);
}

}  // namespace

void ShowTarget(const Session& session, Report* report) {
  if (session.target != nullptr) {
    ShowGraph(session, report);
  } else {
    ShowNetwork(session, report);
  }
  if (session.opaque != nullptr) ShowOpaque(*session.opaque, report);
  if (session.target != nullptr) {
    ShowInputs(session.target->inputs(), session.inputs, session.seed, report);
  } else {
    ShowInputs(*ListInputs(*session.network), session.inputs, session.seed,
               report);
  }
  ShowStandIns(session, report);
}

void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                std::optional<uint64_t> seed, Report* report) {
  if (seed.has_value()) report->json.Add("seed", *seed);
  TextTable table;
  report->json.BeginArray("inputs");
  for (const RunInput& input : inputs) {
    const std::string name = list.Name(input.input);
    const absl::Span<const int64_t> shape = input.tensor.shape();
    // A tensor may have an older code of the type that the target names.
    const TensorType type = list.Type(input.input);
    const DLDataType dtype =
        type.has_dtype() ? type.dtype : input.tensor.dtype();
    table.AddRow(
        {"input", name, TypeToString(shape, dtype), "from " + input.from});
    report->json.BeginObject();
    report->json.Add("name", name);
    report->json.Add("dtype", ToString(dtype));
    report->json.Add("shape", shape);
    report->json.Add("from", input.from);
    report->json.EndObject();
  }
  report->json.EndArray();
  report->text.Add(table);
}

}  // namespace nodewise
