#include "nodewise/foreign/foreign_dump.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_observation.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/lower/lower.h"
#include "nodewise/runner/graph_view.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More names would make the note longer than what it is about.
constexpr size_t kNamedValues = 8;

// Writes what a graph view hands out: of each node what it read, then what it
// made.
class DumpSink : public TensorSink {
 public:
  DumpSink(const GraphIndex& index, DumpWriter* writer)
      : index_(index), graph_(index.graph()), writer_(*writer) {}

  absl::Status Consume(const TensorItem& item) override {
    NODEWISE_ASSIGN_OR_RETURN(const NodeId node,
                              index_.FindNode(item.key.node));
    if (item.tensor == nullptr) {
      is_incomplete = true;
      // A dump has all tensors of a node or none, so the run is of no use any
      // more.
      return absl::CancelledError(item.key.Name());
    }
    if (!graph_.IsFunction(node)) {
      writer_.Input(node, *item.tensor);
      return absl::OkStatus();
    }
    // Tensors of a node are kept until the node is written.
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, item.Keep());
    (item.key.role == TensorRole::kInput ? read_ : made_)
        .push_back(std::move(tensor));
    if (made_.size() == graph_.OutputsOf(node)) Write(node);
    return absl::OkStatus();
  }

  // The node of which something is not handed out, so that it has ended the
  // run.
  bool is_incomplete = false;

 private:
  static std::vector<const DLTensor*> PointersTo(
      const std::vector<NDArray>& tensors) {
    std::vector<const DLTensor*> pointers;
    for (const NDArray& tensor : tensors) pointers.push_back(tensor.tensor());
    return pointers;
  }

  void Write(NodeId node) {
    writer_.WillRun(node, PointersTo(read_), false);
    writer_.DidRun(node, PointersTo(made_), {});
    read_.clear();
    made_.clear();
  }

  const GraphIndex& index_;
  const Graph& graph_;
  DumpWriter& writer_;
  std::vector<NDArray> read_, made_;
};

struct ForeignDumper {
  const NetworkProgram& program;
  const ProgramRequest& request;
  const absl::Span<const NamedTensor> inputs;
  const RecordOptions& record;
  std::vector<std::string> observed;
  std::shared_ptr<const Lowered> lowered_network = nullptr;
  std::unique_ptr<const GraphIndex> index = nullptr;
  DumpPlan plan = {};
  ForeignDump dump = {};

  // The run without a sink comes first: its outputs show later whether looking
  // has changed what the program computes.
  absl::StatusOr<ForeignDump> Run(uint64_t runs) {
    NODEWISE_ASSIGN_OR_RETURN(RunResult unseen, RunOnce({}));
    dump.unseen = std::move(unseen.outputs);
    NODEWISE_RETURN_IF_ERROR(PlanGraph());
    for (uint64_t i = 0; i < runs; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(RunResult seen, Record());
      dump.seen = std::move(seen.outputs);
    }
    dump.entries = plan.items.size();
    dump.tensor_bytes = plan.tensor_bytes;
    return std::move(dump);
  }

 private:
  absl::StatusOr<RunResult> RunOnce(const RunOptions& options) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, program.make(request));
    auto result = runner->Run(inputs, options);
    if (!result.ok()) return At(program.name, result.status());
    return result;
  }

  // Returns the network with the sizes that only its data decides. The program
  // may know operations that nothing here can run; then what is lowered fails
  // and says which size is missing.
  Network Sized() const {
    Network network = *request.network;
    if (HasOpenSizes(network)) FindSizes(inputs, &network).IgnoreError();
    return network;
  }

  // Makes the graph of what is observed, and plans its dump.
  absl::Status PlanGraph() {
    NODEWISE_ASSIGN_OR_RETURN(lowered_network,
                              LowerObserved(Sized(), program.name, observed));
    index = std::make_unique<const GraphIndex>(lowered_network->graph);
    NODEWISE_ASSIGN_OR_RETURN(plan, PlanDump(*index, record));
    return absl::OkStatus();
  }

  absl::StatusOr<RunResult> Record() {
    bool is_incomplete = false;
    auto result = RecordOnce(&is_incomplete);
    if (!is_incomplete) return result;
    // A program says only when it runs what it cannot hand out, so that a first
    // recording may be in vain. The second one asks for nothing else.
    NODEWISE_RETURN_IF_ERROR(LeaveOutAbsent());
    return RecordOnce(&is_incomplete);
  }

  absl::StatusOr<RunResult> RecordOnce(bool* is_incomplete) {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto writer,
        DumpWriter::Create(lowered_network->graph, plan, record, kCpu));
    DumpSink sink(*index, writer.get());
    ProgramRequest asked = request;
    asked.observed = observed;
    NODEWISE_ASSIGN_OR_RETURN(auto runner, program.make(std::move(asked)));
    const auto view = ViewAsGraph(std::move(runner), lowered_network);
    auto result = view->Run(inputs, {.sink = &sink, .with_node_inputs = true});
    const std::vector<NodeTime> times(lowered_network->graph.nodes.size());
    const absl::Status closed =
        result.ok() ? writer->Close(times) : absl::OkStatus();
    *is_incomplete = sink.is_incomplete;
    if (!result.ok()) {
      std::error_code error;  // What cannot be removed stays.
      std::filesystem::remove_all(writer->folder(), error);
      return At(program.name, result.status());
    }
    NODEWISE_RETURN_IF_ERROR(closed);
    dump.folders.push_back(writer->folder());
    return result;
  }

  // Operations between which something is not handed out become one node.
  absl::Status LeaveOutAbsent() {
    AbsentSink sink;
    NODEWISE_RETURN_IF_ERROR(RunOnce({.sink = &sink}).status());
    // Their neighbours become one node with them, so the graph has to be made
    // again.
    std::erase_if(observed, [&](const std::string& name) {
      return sink.absent.contains(name);
    });
    std::vector<std::string> names;
    for (const auto& [name, why] : sink.absent) names.push_back(name);
    dump.notes.push_back(fmt::format(
        "{}: does not hand out {}, so that operations around them are one node",
        program.name, ListOf(names, kNamedValues)));
    return PlanGraph();
  }
};

}  // namespace

absl::StatusOr<ForeignDump> DumpForeign(const NetworkProgram& program,
                                        const ProgramRequest& request,
                                        absl::Span<const NamedTensor> inputs,
                                        const RecordOptions& record,
                                        uint64_t runs) {
  return ForeignDumper{program, request, inputs, record,
                       ObservableValues(*request.network)}
      .Run(runs);
}

}  // namespace nodewise
