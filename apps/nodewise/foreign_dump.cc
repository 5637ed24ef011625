#include "apps/nodewise/foreign_dump.h"

#include <filesystem>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "apps/nodewise/foreign_run.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/node_times.h"
#include "nodewise/lower/lower.h"
#include "nodewise/runner/graph_view.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedValues = 8;

// Notes what a runner does not hand out.
class AbsentNames : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) names.insert(item.key.node);
    return absl::OkStatus();
  }

  std::set<std::string> names;
};

// Writes what a graph view hands out: of each node what it read, then what it
// made.
class DumpSink : public TensorSink {
 public:
  DumpSink(const GraphIndex& index, DumpWriter* writer)
      : index_(index), graph_(index.graph()), writer_(*writer) {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      nodes_.emplace(index.KeyOf(NodeId{n}), NodeId{n});
    }
  }

  absl::Status Take(const TensorItem& item) override {
    const NodeId node = nodes_.at(item.key.node);
    if (item.tensor == nullptr) {
      is_incomplete_ = true;
      return absl::CancelledError(item.key.Name());
    }
    if (!graph_.IsFunction(node)) {
      writer_.Input(node, *item.tensor);
      return absl::OkStatus();
    }
    // They stay where they are until the node is written.
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, item.Keep());
    (item.key.role == TensorRole::kInput ? read_ : made_)
        .push_back(std::move(tensor));
    if (made_.size() == graph_.OutputsOf(node)) Write(node);
    return absl::OkStatus();
  }

  bool is_incomplete() const { return is_incomplete_; }

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
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  std::vector<NDArray> read_, made_;
  bool is_incomplete_ = false;
};

class ForeignDumper {
 public:
  ForeignDumper(const LoadedForeign& loaded, const RecordOptions& record,
                Outcome* outcome)
      : loaded_(loaded),
        record_(record),
        outcome_(*outcome),
        observed_(ObservableValues(*loaded.target.network)) {}

  absl::Status Run(uint64_t runs) {
    NODEWISE_ASSIGN_OR_RETURN(const RunResult unseen,
                              RunForeign(loaded_, loaded_.target, {}));
    NODEWISE_RETURN_IF_ERROR(Lower());
    outcome_.json.Add("entries", uint64_t{plan_.items.size()});
    outcome_.json.Add("tensor_bytes", plan_.tensor_bytes);
    std::vector<std::string> folders;
    RunResult seen;
    for (uint64_t i = 0; i < runs; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(seen, Record(&folders));
    }
    outcome_.json.Add("dumps", folders);
    ShowUnseenCheck(seen.outputs, unseen.outputs, &outcome_);
    return absl::OkStatus();
  }

 private:
  // Makes the graph of what is observed, and plans its dump.
  absl::Status Lower() {
    const std::set<std::string> names(observed_.begin(), observed_.end());
    LowerOptions options;
    options.reuse_storage = false;
    options.is_observed = [&](const Network& network, ValueId id) {
      return names.contains(network.value(id).name);
    };
    NODEWISE_ASSIGN_OR_RETURN(
        Lowered lowered,
        nodewise::Lower(*loaded_.target.network, loaded_.target.name, options));
    lowered_ = std::make_shared<const Lowered>(std::move(lowered));
    index_ = std::make_unique<const GraphIndex>(lowered_->graph);
    auto plan = PlanDump(*index_, record_);
    if (!plan.ok()) return At("--select, --nodes", plan.status());
    plan_ = *std::move(plan);
    return absl::OkStatus();
  }

  absl::StatusOr<RunResult> Record(std::vector<std::string>* folders) {
    bool is_incomplete = false;
    auto result = RecordOnce(folders, &is_incomplete);
    if (!is_incomplete) return result;
    NODEWISE_RETURN_IF_ERROR(LeaveOutAbsent());
    return RecordOnce(folders, &is_incomplete);
  }

  absl::StatusOr<RunResult> RecordOnce(std::vector<std::string>* folders,
                                       bool* is_incomplete) {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto writer,
        DumpWriter::Create(lowered_->graph, plan_, record_, kCpu));
    DumpSink sink(*index_, writer.get());
    ForeignTarget target = loaded_.target;
    target.observed = observed_;
    NODEWISE_ASSIGN_OR_RETURN(auto runner, MakeForeignRunner(target));
    const auto view = ViewAsGraph(std::move(runner), lowered_);
    RunOptions options;
    options.sink = &sink;
    options.with_node_inputs = true;
    auto result = view->Run(loaded_.NamedInputs(), options);
    const std::vector<NodeTime> times(lowered_->graph.nodes.size());
    const absl::Status closed =
        result.ok() ? writer->Close(times) : absl::OkStatus();
    *is_incomplete = sink.is_incomplete();
    if (!result.ok()) {
      std::error_code error;  // What cannot be removed stays.
      std::filesystem::remove_all(writer->folder(), error);
      return At(loaded_.target.name, result.status());
    }
    NODEWISE_RETURN_IF_ERROR(closed);
    folders->push_back(writer->folder());
    outcome_.text +=
        fmt::format("dump    {}: {}, {}\n", Printable(writer->folder()),
                    CountOf(plan_.items.size(), "tensor"),
                    CountOf(plan_.tensor_bytes, "byte"));
    return result;
  }

  // Operations between which something is not handed out become one node.
  absl::Status LeaveOutAbsent() {
    AbsentNames absent;
    RunOptions options;
    options.sink = &absent;
    NODEWISE_RETURN_IF_ERROR(
        RunForeign(loaded_, loaded_.target, options).status());
    std::erase_if(observed_, [&](const std::string& name) {
      return absent.names.contains(name);
    });
    outcome_.notes.push_back(fmt::format(
        "{}: does not hand out {}, so that operations around them are one node",
        loaded_.target.name,
        ListOf({absent.names.begin(), absent.names.end()}, kNamedValues)));
    return Lower();
  }

  const LoadedForeign& loaded_;
  const RecordOptions& record_;
  Outcome& outcome_;
  std::vector<std::string> observed_;
  std::shared_ptr<const Lowered> lowered_;
  std::unique_ptr<const GraphIndex> index_;
  DumpPlan plan_;
};

}  // namespace

absl::Status DumpForeign(const LoadedForeign& loaded,
                         const RecordOptions& record, uint64_t runs,
                         Outcome* outcome) {
  return ForeignDumper(loaded, record, outcome).Run(runs);
}

}  // namespace nodewise
