#include "nodewise/tensors/dump_graph.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

absl::StatusOr<Graph> ReadGraph(const std::string& folder) {
  const std::string path = folder + "/" + kSourceGraphFile;
  auto text = GraphText::FromFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(fmt::format(
        "{}: has no {}, expected a dump with the graph that ran, as nodewise "
        "dump writes it where there is one (libraries of today's TVM have "
        "none: "
        "nodewise locate takes these themselves, with --reference MODEL.onnx)",
        folder, kSourceGraphFile));
  }
  NODEWISE_RETURN_IF_ERROR(text.status());
  return ParseGraph(*std::move(text));
}

// A dump has its graph twice, and the text that TVM reads is of the run for
// sure. Fails with kDataLoss where the other one is of another graph.
absl::Status CheckIsGraphOfRun(const std::string& folder, const Graph& graph) {
  auto text = GraphText::FromFile(folder + "/" + kGraphDumpFile);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(text.status());
  Graph of_run, expected;
  DiagnosticList diagnostics;
  const bool are_read =
      ParseDumpedGraph(*text, &of_run, &diagnostics) &&
      ParseDumpedGraph(GraphText::FromString("graph", GraphDumpJson(graph)),
                       &expected, &diagnostics);
  // Whoever reads the tensors says what is wrong with such a file.
  if (!are_read) return absl::OkStatus();
  const auto fails = [&](const std::string& what) {
    return absl::DataLossError(fmt::format(
        "{}/{}: {} {}: one of the two is of another network (dump it again)",
        folder, kSourceGraphFile, what, kGraphDumpFile));
  };
  if (of_run.nodes.size() != expected.nodes.size()) {
    return fails(fmt::format("has {}, expected {} as in",
                             CountOf(expected.nodes.size(), "node"),
                             of_run.nodes.size()));
  }
  for (size_t n = 0; n < of_run.nodes.size(); ++n) {
    const GraphNode &run = of_run.nodes[n], &told = expected.nodes[n];
    if (run.name == told.name && run.function == told.function) continue;
    return fails(fmt::format(
        "node {} is {} (function {}), expected {} (function {}) as in", n,
        Printable(told.name), Printable(told.function), Printable(run.name),
        Printable(run.function)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DumpedRun> OpenDumpedRun(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const Dump dump, OpenDump(path));
  DumpedRun run;
  NODEWISE_ASSIGN_OR_RETURN(run.source, OpenTensorSource(dump.folder));
  NODEWISE_RETURN_IF_ERROR(run.source->CheckComplete());
  NODEWISE_ASSIGN_OR_RETURN(run.graph, ReadGraph(dump.folder));
  NODEWISE_RETURN_IF_ERROR(CheckIsGraphOfRun(dump.folder, run.graph));
  return run;
}

}  // namespace nodewise
