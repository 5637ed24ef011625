#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

class GraphIndex;

// A block of memory that entries share.
struct StorageSlot {
  int32_t storage_id = 0;  // The graph's number for it.
  size_t bytes = 0;        // The largest of its entries.
  int device_type = 0;
  std::string scope;  // "" or a memory scope such as "global.texture".
};

// Which entry lives where: the plan that the compiler made, and how large it
// makes each slot.
struct StoragePlan {
  std::vector<StorageSlot> slots;
  std::vector<uint32_t> slot_of;  // By entry.
  // By entry: the entry that owns the tensor. A __nop that shares its input's
  // slot makes no tensor of its own; every other entry is its own base.
  std::vector<uint32_t> base_of;
};

// Follows the graph's storage ids, which may be any numbers. Entries without a
// device_index are on `default_device_type`. Fails with kDataLoss if one id is
// used on two devices. REQUIRES: the graph passed CheckGraph.
absl::StatusOr<StoragePlan> PlanStorage(const Graph& graph,
                                        int default_device_type);

// Lists what is wrong with a plan: entries that share a slot while both are
// needed, outputs and parameters that a later node overwrites. Such faults do
// not keep the graph from running, but make its results wrong.
void CheckPlan(const Graph& graph, const StoragePlan& plan,
               DiagnosticList* diagnostics);

// An output of the graph that a later node writes over, so that a run hands out
// what that node made.
struct LostOutput {
  uint32_t output = 0;  // Its number among the graph's outputs.
  EntryId entry{};      // The tensor that it should be.
  EntryId written_over_by{};
};
// Returns the outputs that are lost by the plan, in their order. REQUIRES:
// there is one.
std::vector<LostOutput> LostOutputs(const GraphIndex& index);

// When a tensor is written and last read, as numbers of nodes, which run in
// their order.
struct Lifetime {
  static constexpr int64_t kBeforeTheRun = -1;
  static constexpr int64_t kNever = -1;

  // An input is written before the run.
  int64_t written = kBeforeTheRun;
  // An output of the graph is read after the last node: this is the number of
  // nodes.
  int64_t last_read = kNever;
};

// What can be known of a graph before it runs, found out once: how nodes and
// entries are called, how large entries are, which of them are one tensor, who
// reads them, and when.
//
// Not thread-safe: keys are made when they are first asked for.
class GraphIndex {
 public:
  // The entries share tensors and slots as the plan says. REQUIRES: the graph
  // is sound (CheckGraph), the plan is one for it, and both outlive the object.
  GraphIndex(const Graph& graph, const StoragePlan& plan)
      : GraphIndex(graph, &plan) {}
  // Without a plan every entry is a tensor of its own.
  explicit GraphIndex(const Graph& graph) : GraphIndex(graph, nullptr) {}

  // How many this process has made: what searches hand down is not made again.
  static int64_t CountMade();

  const Graph& graph() const { return graph_; }
  // REQUIRES: there is a plan.
  const StoragePlan& plan() const { return *plan_; }

  // --- Names ---

  // Returns the key of a node: its name, or `name#7` for node 7 if another node
  // has the same name. No two nodes have the same key.
  const std::string& KeyOf(NodeId node) const { return keys()[node]; }
  // Returns "key:1" for output 1 of the node with that key.
  std::string KeyOf(EntryId entry) const;
  // Return how messages name a node or an entry: "node 7 (name)",
  // "output 1 of node 7 (name)".
  std::string TitleOf(NodeId node) const { return NodeTitle(graph_, node); }
  std::string TitleOf(EntryId entry) const;

  // Returns the node with that key or name, or node 7 for "#7". Fails with
  // kNotFound, naming the nearest, or with kInvalidArgument if several nodes
  // have that name.
  absl::StatusOr<NodeId> FindNode(std::string_view key) const;
  // Returns the entry that "node" (meaning its output 0) or "node:1" names,
  // where the node is named as in FindNode(). Fails as that does, or with
  // kOutOfRange if the node has no such output.
  absl::StatusOr<EntryId> FindEntry(std::string_view key) const;
  // Return the node or entry of a number that comes from outside. Fail with
  // kOutOfRange: "node 7: the graph has 5 nodes".
  absl::StatusOr<NodeId> NodeAt(int64_t number) const;
  absl::StatusOr<EntryId> EntryAt(int64_t number) const;

  // --- Entries ---

  // Returns the node that makes the entry, and which of its outputs it is.
  NodeId NodeOf(EntryId entry) const { return node_of_[entry]; }
  uint32_t OutputOf(EntryId entry) const {
    return Index(entry) - graph_.node_row_ptr[Index(node_of_[entry])];
  }
  // Returns the size of the entry's compact tensor.
  size_t BytesOf(EntryId entry) const { return bytes_[entry]; }
  // Returns the entry whose tensor this one is: itself, but for the output of a
  // __nop that shares its input's slot.
  EntryId BaseOf(EntryId entry) const {
    return plan_ == nullptr ? entry : EntryId{plan_->base_of[Index(entry)]};
  }
  bool IsBase(EntryId entry) const { return BaseOf(entry) == entry; }
  // Returns whether nothing is called for the node: an input, or a __nop whose
  // output is its input's tensor.
  bool IsFree(NodeId node) const;

  // Returns the function nodes that have the entry among their inputs, in their
  // order, each once. Entries that are the same tensor have readers of their
  // own.
  absl::Span<const NodeId> ReadersOf(EntryId entry) const {
    return readers_[Index(entry)];
  }
  // Returns when the tensor that the entry is, is needed. Reads of all entries
  // that are this tensor count; a free __nop reads nothing.
  const Lifetime& LifetimeOf(EntryId entry) const {
    return lifetimes_[BaseOf(entry)];
  }
  // Returns the base entries whose tensors lie in a slot of the plan, in the
  // order in which they are written: inputs first. REQUIRES: there is a plan.
  absl::Span<const EntryId> TensorsIn(uint32_t slot) const {
    return tensors_[slot];
  }

 private:
  // Lists of items, one after the other in one vector.
  template <typename T>
  class Lists {
   public:
    // Makes `count` lists of pairs of a list's number and an item.
    Lists(size_t count, const std::vector<std::pair<uint32_t, T>>& members);
    absl::Span<const T> operator[](size_t list) const {
      return absl::MakeConstSpan(items_).subspan(
          begins_[list], begins_[list + 1] - begins_[list]);
    }

   private:
    std::vector<uint32_t> begins_;
    std::vector<T> items_;
  };

  GraphIndex(const Graph& graph, const StoragePlan* plan);
  const ByNode<std::string>& keys() const;
  Lists<NodeId> FindReaders() const;
  Lists<EntryId> FindTensors() const;
  void FindSizes();
  void FindLifetimes();

  const Graph& graph_;
  const StoragePlan* plan_;  // May be null.
  mutable ByNode<std::string> keys_;
  ByEntry<NodeId> node_of_;
  ByEntry<size_t> bytes_;
  Lists<NodeId> readers_;        // By entry.
  Lists<EntryId> tensors_;       // By slot.
  ByEntry<Lifetime> lifetimes_;  // Those of base entries count.
};

}  // namespace nodewise
