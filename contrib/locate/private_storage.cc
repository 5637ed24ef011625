#include "nodewise/locate/private_storage.h"

#include <algorithm>
#include <cstdint>

namespace nodewise {

Graph WithPrivateStorage(Graph graph) {
  int32_t next = 0;
  for (const GraphEntry& entry : graph.entries) {
    next = std::max(next, entry.storage_id + 1);
  }
  const Graph planned = graph;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId node{n};
    // Parameters that are linked into a library are found by their ids.
    if (!graph.IsFunction(node)) continue;
    for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
      const EntryId made = graph.EntryOf(node, slot);
      int32_t& id = graph.entries[Index(made)].storage_id;
      if (graph.node(node).function == kNopFunction) {
        const EntryId read = graph.EntryOf(graph.node(node).inputs[0]);
        if (planned.entry(read).storage_id == id) {
          id = graph.entry(read).storage_id;
          continue;
        }
      }
      id = next++;
    }
  }
  return graph;
}

}  // namespace nodewise
