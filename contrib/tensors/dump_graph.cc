#include "nodewise/tensors/dump_graph.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/dump_key.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The graph as it was loaded stands beside the one that TVM's debugger writes;
// the latter does not say which output of a node is read, and cannot be run.
absl::StatusOr<Graph> ReadGraph(const std::string& folder) {
  const std::string path = folder + "/" + kSourceGraphFile;
  auto text = GraphText::FromFile(path);
  if (absl::IsNotFound(text.status())) {
    return NotFound(
        "{}: has no {}, expected a dump with the graph that ran, as nodewise "
        "dump writes it where there is one (libraries of today's TVM have "
        "none: {} takes these themselves)",
        folder, kSourceGraphFile, NameOf(Way::kModelBeside));
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
  // Both graphs are brought into the debugger's form, in which they must be
  // alike.
  DiagnosticList diagnostics;
  const bool are_read =
      ParseDumpedGraph(*text, &of_run, &diagnostics) &&
      ParseDumpedGraph(GraphText::FromString("graph", GraphDumpJson(graph)),
                       &expected, &diagnostics);
  // The code that reads the tensors reports what is wrong with such a file.
  if (!are_read) return absl::OkStatus();
  const auto fails = [&](const std::string& what) {
    return DataLoss(
        "{}/{}: {} {}: one of the two is of another network (dump it again)",
        folder, kSourceGraphFile, what, kGraphDumpFile);
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

// Old files have other codes for some types of the same size, but no file has
// integers for floats.
bool AreSameKind(DLDataType a, DLDataType b) {
  const auto is_integer = [](DLDataType dtype) {
    return dtype.code == kDLInt || dtype.code == kDLUInt;
  };
  return a.bits == b.bits && a.lanes == b.lanes &&
         (a.code == b.code || (a.code != kDLFloat && b.code != kDLFloat) ||
          (!is_integer(a) && !is_integer(b)));
}

// A dump whose tensors have been checked against its graph. Everything that
// works with both takes the sizes from the graph, so that a tensor of another
// size must not get that far.
class CheckedSource final : public TensorSource {
 public:
  CheckedSource(std::unique_ptr<TensorSource> source, const Graph& graph)
      : source_(std::move(source)), graph_name_(graph.text.name) {
    const GraphIndex index(graph);
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const NodeId node{n};
      for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
        Add({index.KeyOf(node), slot}, graph.entry(graph.EntryOf(node, slot)));
      }
      const std::vector<EntryRef>& inputs = graph.node(node).inputs;
      for (uint32_t slot = 0; slot < inputs.size(); ++slot) {
        Add({index.KeyOf(node), slot, TensorRole::kInput},
            graph.entry(graph.EntryOf(inputs[slot])));
      }
    }
  }

  const std::string& name() const override { return source_->name(); }
  absl::Status Visit(TensorSink& sink) override {
    return VisitEach(*source_, [&](const TensorItem& item) -> absl::Status {
      if (item.tensor != nullptr) {
        NODEWISE_RETURN_IF_ERROR(Check(item.key, *item.tensor));
      }
      return sink.Consume(item);
    });
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, source_->Find(key));
    NODEWISE_RETURN_IF_ERROR(Check(key, *tensor));
    return tensor;
  }
  absl::Status CheckComplete() override { return source_->CheckComplete(); }

 private:
  struct Type {
    std::vector<int64_t> shape;
    DLDataType dtype;
  };
  void Add(const TensorKey& key, const GraphEntry& entry) {
    types_.emplace(key, Type{entry.shape, entry.dtype});
  }

  // A key that the graph does not have is for others to judge.
  absl::Status Check(const TensorKey& key, const DLTensor& tensor) const {
    const auto found = types_.find(key);
    if (found == types_.end()) return absl::OkStatus();
    const Type& expected = found->second;
    if (ShapeOf(tensor) == absl::MakeConstSpan(expected.shape) &&
        AreSameKind(tensor.dtype, expected.dtype)) {
      return absl::OkStatus();
    }
    return DataLoss("{}: tensor {} is {}, expected {} as in {} (dump it again)",
                    name(), Printable(key.Name()),
                    TypeToString(ShapeOf(tensor), tensor.dtype),
                    TypeToString(expected.shape, expected.dtype), graph_name_);
  }

  const std::unique_ptr<TensorSource> source_;
  const std::string graph_name_;
  std::unordered_map<TensorKey, Type> types_;
};

// The graph as TVM's debugger writes it.
absl::StatusOr<Graph> ReadRewrittenGraph(const std::string& folder) {
  NODEWISE_ASSIGN_OR_RETURN(const GraphText text,
                            GraphText::FromFile(folder + "/" + kGraphDumpFile));
  Graph graph;
  DiagnosticList diagnostics;
  if (ParseDumpedGraph(text, &graph, &diagnostics)) return graph;
  return diagnostics.ToStatus();
}

}  // namespace

absl::StatusOr<Graph> GraphOfDump(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const Dump dump, OpenDump(path));
  auto graph = ReadGraph(dump.folder);
  if (!absl::IsNotFound(graph.status())) return graph;
  return ReadRewrittenGraph(dump.folder);
}

absl::StatusOr<DumpedRun> OpenDumpedRun(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const Dump dump, OpenDump(path));
  DumpedRun run;
  NODEWISE_ASSIGN_OR_RETURN(run.source, OpenTensorSource(dump.folder));
  NODEWISE_RETURN_IF_ERROR(run.source->CheckComplete());
  NODEWISE_ASSIGN_OR_RETURN(run.graph, ReadGraph(dump.folder));
  NODEWISE_RETURN_IF_ERROR(CheckIsGraphOfRun(dump.folder, run.graph));
  for (const NodeRecord& record : dump.records) {
    if (!record.floats) continue;
    // A damaged record may name any node.
    if (Index(record.node) >= run.graph.nodes.size()) continue;
    run.floats.emplace_back(record.node, *record.floats);
  }
  run.source =
      std::make_unique<CheckedSource>(std::move(run.source), run.graph);
  return run;
}

}  // namespace nodewise
