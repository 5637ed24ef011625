#include "nodewise/locate/node_check.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Operators read whole vectors.
constexpr uintptr_t kAlignment = 64;

absl::StatusOr<NDArray> KeepAligned(const TensorItem& item) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray kept, item.Keep());
  if (reinterpret_cast<uintptr_t>(kept.data()) % kAlignment == 0) return kept;
  return kept.CopyToHost();
}

// Checks each node as soon as the run has handed out what it made.
class NodeChecker : public TensorSink {
 public:
  NodeChecker(const Graph& graph, const OpSet& ops)
      : graph_(graph),
        ops_(ops),
        index_(graph),
        made_(graph),
        read_(graph),
        is_done_(graph) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      nodes_.emplace(index_.KeyOf(NodeId{n}), NodeId{n});
    }
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end() || item.tensor == nullptr) {
      return absl::OkStatus();
    }
    const NodeId node = found->second;
    if (item.key.role == TensorRole::kInput) return TakeRead(node, item);
    if (item.key.slot >= graph_.OutputsOf(node)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(made_[graph_.EntryOf(node, item.key.slot)],
                              KeepAligned(item));
    const bool is_last = item.key.slot + 1 == graph_.OutputsOf(node);
    if (is_last && graph_.IsFunction(node)) Check(node);
    return absl::OkStatus();
  }

  NodeChecks Finish() {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (!graph_.IsFunction(node) || is_done_[node]) continue;
      Skip(node, "the run has not handed out what it made");
    }
    return std::move(checks_);
  }

 private:
  absl::Status TakeRead(NodeId node, const TensorItem& item) {
    std::vector<NDArray>& inputs = read_[node];
    inputs.resize(graph_.node(node).inputs.size());
    if (item.key.slot >= inputs.size()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(inputs[item.key.slot], KeepAligned(item));
    return absl::OkStatus();
  }

  void Check(NodeId node) {
    NodeCheck check{node, index_.KeyOf(node), {}};
    const absl::Status status = Compare(&check);
    if (status.ok()) {
      checks_.nodes.push_back(std::move(check));
      is_done_[node] = true;
    } else {
      Skip(node, std::string(MessageOf(status)));
    }
    DropAfter(node);
  }

  // Whatever keeps a node from being checked is the reason why it is skipped.
  absl::Status Compare(NodeCheck* check) {
    const NodeId node = check->node;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> inputs,
                              InputsOf(node));
    std::vector<NDArray> made;
    for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
      made.push_back(made_[graph_.EntryOf(node, slot)]);
      if (made.back().defined()) continue;
      return absl::NotFoundError(
          fmt::format("the run has not handed out its output {}", slot));
    }
    NODEWISE_ASSIGN_OR_RETURN(const Region region,
                              RegionOfNode(node, inputs, made));
    auto expected = InterpretCarryingBounds(region.network, inputs);
    if (!expected.ok()) return At("the reference", expected.status());
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const BoundedTensor& reference = (*expected)[slot];
      const TensorKey key{check->key, slot, TensorRole::kOutput, "reference"};
      TensorItem item{key};
      item.tensor = reference.tensor.tensor();
      item.proved_bounds = reference.bounds.proved;
      item.expected_bounds = reference.bounds.expected;
      NODEWISE_ASSIGN_OR_RETURN(TensorComparison compared,
                                CompareTensors(item, *made[slot]));
      check->outputs.push_back(std::move(compared));
    }
    return absl::OkStatus();
  }

  // What the node read, or else what was made for it to read.
  absl::StatusOr<std::vector<NDArray>> InputsOf(NodeId node) const {
    std::vector<NDArray> inputs = read_[node];
    const std::vector<EntryRef>& refs = graph_.node(node).inputs;
    inputs.resize(refs.size());
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph_.EntryOf(refs[slot]);
      if (!inputs[slot].defined()) inputs[slot] = made_[entry];
      if (inputs[slot].defined()) continue;
      return absl::NotFoundError(
          fmt::format("the run has not handed out its input {} ({})", slot,
                      index_.KeyOf(entry)));
    }
    return inputs;
  }

  absl::StatusOr<Region> RegionOfNode(NodeId id, absl::Span<const NDArray> in,
                                      absl::Span<const NDArray> out) const {
    const GraphNode& node = graph_.node(id);
    std::vector<const DLTensor*> arguments;
    for (const NDArray& tensor : in) arguments.push_back(tensor.tensor());
    for (const NDArray& tensor : out) arguments.push_back(tensor.tensor());
    return RegionOf({node.function, node.attrs, arguments, out.size()}, ops_);
  }

  // Lets go what no later node reads.
  void DropAfter(NodeId node) {
    read_[node].clear();
    const auto drop = [&](EntryId entry) {
      if (index_.LifetimeOf(entry).last_read <= int64_t{Index(node)}) {
        made_[entry] = NDArray();
      }
    };
    for (const EntryRef& ref : graph_.node(node).inputs) {
      drop(graph_.EntryOf(ref));
    }
    for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
      drop(graph_.EntryOf(node, slot));
    }
  }

  void Skip(NodeId node, std::string why) {
    is_done_[node] = true;
    checks_.skipped.push_back({node, index_.KeyOf(node), std::move(why)});
  }

  const Graph& graph_;
  const OpSet& ops_;
  const GraphIndex index_;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  ByEntry<NDArray> made_;
  ByNode<std::vector<NDArray>> read_;
  ByNode<bool> is_done_;
  NodeChecks checks_;
};

}  // namespace

const TensorComparison& NodeCheck::Worst() const {
  return *std::max_element(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& a, const TensorComparison& b) {
        if (a.verdict() != b.verdict()) return a.verdict() < b.verdict();
        return ErrorOverBound(a) < ErrorOverBound(b);
      });
}

bool NodeCheck::IsEqual() const {
  return std::all_of(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& output) { return output.is_equal(); });
}

size_t NodeChecks::CountOf(Verdict verdict) const {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const NodeCheck& check) {
        return check.Worst().verdict() == verdict;
      }));
}

size_t NodeChecks::CountEqual() const {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(),
                    [](const NodeCheck& check) { return check.IsEqual(); }));
}

const NodeCheck* NodeChecks::FirstWrong() const {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(),
                   [](const NodeCheck& check) { return check.IsWrong(); });
  return found == nodes.end() ? nullptr : &*found;
}

absl::StatusOr<NodeChecks> CheckNodes(const Graph& graph, const OpSet& ops,
                                      TensorSource& run) {
  NodeChecker checker(graph, ops);
  NODEWISE_RETURN_IF_ERROR(run.Visit(checker));
  NodeChecks checks = checker.Finish();
  if (!checks.nodes.empty()) return checks;
  return absl::FailedPreconditionError(fmt::format(
      "{}: no node could be checked{}{}", run.name(),
      checks.skipped.empty() ? "" : ": ",
      checks.skipped.empty() ? ""
                             : fmt::format("{}: {}", checks.skipped[0].key,
                                           checks.skipped[0].why)));
}

}  // namespace nodewise
