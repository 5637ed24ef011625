#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// A vector with one item for each node, or for each entry, of a graph. It is
// indexed by NodeId or EntryId, so that one cannot be taken for the other.
template <typename Id, typename T>
class ById {
 public:
  // Without items, for a member that gets them later.
  ById() = default;
  // As many items as the graph has nodes or entries, each a copy of `value`.
  explicit ById(const Graph& graph, const T& value = T())
      : items_(CountIn(graph), value) {}

  // REQUIRES: the graph has that node or entry.
  typename std::vector<T>::reference operator[](Id id) {
    return items_[Index(id)];
  }
  typename std::vector<T>::const_reference operator[](Id id) const {
    return items_[Index(id)];
  }

  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  // The items in the order of their numbers.
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  static size_t CountIn(const Graph& graph) {
    if constexpr (std::is_same_v<Id, NodeId>) return graph.nodes.size();
    return graph.entries.size();
  }

  std::vector<T> items_;
};

template <typename T>
using ByNode = ById<NodeId, T>;
template <typename T>
using ByEntry = ById<EntryId, T>;

// Numbers of nodes or entries one after the other.
template <typename Id>
struct IdRange {
  struct Iterator {
    using value_type = Id;
    using difference_type = std::ptrdiff_t;

    Id id;
    Id operator*() const { return id; }
    Iterator& operator++() {
      id = Id{Index(id) + 1};
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;
  };
  Iterator begin() const { return {Id{first}}; }
  Iterator end() const { return {Id{past_last}}; }

  uint32_t first;
  uint32_t past_last;
};

// Return the nodes of a graph, its entries, and those of one node's outputs.
inline IdRange<NodeId> AllNodes(const Graph& graph) {
  return {0, static_cast<uint32_t>(graph.nodes.size())};
}
inline IdRange<EntryId> AllEntries(const Graph& graph) {
  return {0, static_cast<uint32_t>(graph.entries.size())};
}
inline IdRange<EntryId> EntriesMadeBy(const Graph& graph, NodeId node) {
  return {graph.node_row_ptr[Index(node)], graph.node_row_ptr[Index(node) + 1]};
}

// Returns the nodes that are functions, in their order.
inline std::vector<NodeId> FunctionNodesOf(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (const NodeId node : AllNodes(graph)) {
    if (graph.IsFunction(node)) nodes.push_back(node);
  }
  return nodes;
}

// When a node ran, on the monotonic clock. Both 0 for a node that did not.
struct NodeTime {
  int64_t start_ns = 0;
  int64_t end_ns = 0;

  int64_t Duration() const { return end_ns - start_ns; }
};

// One pass over the graph in its real order. Where nothing happens between two
// nodes, the end of one is the start of the next.
struct TimedRun {
  std::vector<NodeTime> nodes;  // By node; inputs and free __nop stay 0.
  NodeTime whole;               // Measured around all nodes.
};

}  // namespace nodewise
