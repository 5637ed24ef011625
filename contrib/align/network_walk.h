#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Walks through a network, and through the graph that was compiled from it. All
// use lists of what is waiting: networks are deeper than a stack should be.

// Calls `enter` with the values and with all that they are made of, each once,
// but goes back no further from a value for which it returns false. Returns by
// value whether it was called.
inline std::vector<bool> WalkBack(
    const Network& network, std::vector<ValueId> waiting,
    absl::FunctionRef<bool(const NetworkValue& value)> enter) {
  std::vector<bool> seen(network.data().values.size());
  while (!waiting.empty()) {
    const NetworkValue& value = network.value(waiting.back());
    waiting.pop_back();
    if (seen[Index(value.id)]) continue;
    seen[Index(value.id)] = true;
    if (!enter(value) || value.kind != NetworkValue::Kind::kOutput) continue;
    for (const ValueId input : network.operation(value.producer).inputs) {
      if (input != kNoValue) waiting.push_back(input);
    }
  }
  return seen;
}

// Calls `enter` with all values that are made of this one, each once, but goes
// on no further from a value for which it returns false.
inline void WalkBehind(const Network& network, ValueId from,
                       absl::FunctionRef<bool(ValueId made)> enter) {
  std::vector<bool> seen(network.data().values.size());
  std::vector<ValueId> waiting = {from};
  while (!waiting.empty()) {
    const ValueId next = waiting.back();
    waiting.pop_back();
    for (const Use& use : network.value(next).uses) {
      if (use.slot == kBarrierSlot) continue;
      for (const ValueId output : network.operation(use.user).outputs) {
        if (output == kNoValue || seen[Index(output)]) continue;
        seen[Index(output)] = true;
        if (enter(output)) waiting.push_back(output);
      }
    }
  }
}

// Returns the operations in the order of the network.
inline std::vector<OperationId> InOrder(const Network& network,
                                        const std::set<OperationId>& some) {
  std::vector<OperationId> ordered;
  for (const OperationId id : network.order()) {
    if (some.count(id) > 0) ordered.push_back(id);
  }
  return ordered;
}

// Returns what a node reads.
using SomeEntries = absl::InlinedVector<EntryId, 4>;
inline SomeEntries ReadsOf(const Graph& graph, NodeId node) {
  SomeEntries entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    entries.push_back(graph.EntryOf(ref));
  }
  return entries;
}

// Returns the type of an entry of the graph as the network has types.
inline TensorType TypeOf(const GraphEntry& entry) {
  return {entry.dtype, Shape(entry.shape.begin(), entry.shape.end())};
}

// Returns whether the list has it.
template <typename List, typename Item>
bool Contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != list.end();
}

// Returns the node and those before it, nearest first. `enter` is called with
// what each of them reads and with those that are known so far, and says
// whether the maker is one more. No further ones are looked at once there are
// more than `most`.
inline std::vector<NodeId> NodesBefore(
    const GraphIndex& index, NodeId node, size_t most,
    absl::FunctionRef<bool(EntryId read, const std::vector<NodeId>& nodes)>
        enter) {
  std::vector<NodeId> nodes = {node};
  for (size_t i = 0; i < nodes.size() && nodes.size() <= most; ++i) {
    for (const EntryId read : ReadsOf(index.graph(), nodes[i])) {
      const NodeId maker = index.NodeOf(read);
      if (enter(read, nodes) && !Contains(nodes, maker)) nodes.push_back(maker);
    }
  }
  return nodes;
}

}  // namespace nodewise
