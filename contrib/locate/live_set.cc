#include "contrib/locate/live_set.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/private_storage.h"

namespace nodewise {

uint64_t LargestLiveSet(const Graph& graph, const Params& params) {
  // Where all tensors are apart, only a __nop makes none of its own.
  const Graph apart = WithPrivateStorage(graph);
  const auto plan = PlanStorage(apart, kDLCPU);
  if (!plan.ok()) return 0;
  const GraphIndex index(apart, *plan);
  std::set<std::string> names;
  for (const NamedTensor& param : params.tensors) names.insert(param.name);
  // By node: how many bytes come to life with it, and how many end before it.
  std::vector<uint64_t> begins(graph.nodes.size() + 1);
  std::vector<uint64_t> ends(graph.nodes.size() + 2);
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    const EntryId entry{e};
    if (!index.IsBase(entry)) continue;
    const NodeId maker = index.NodeOf(entry);
    const bool is_function = graph.IsFunction(maker);
    if (!is_function && names.contains(graph.node(maker).name)) continue;
    const Lifetime& life = index.LifetimeOf(entry);
    const int64_t begin = std::max<int64_t>(life.written, 0);
    // A tensor that no node reads is written all the same.
    const int64_t last = std::max(begin, life.last_read);
    begins[static_cast<size_t>(begin)] += index.BytesOf(entry);
    ends[static_cast<size_t>(last) + 1] += index.BytesOf(entry);
  }
  uint64_t alive = 0;
  uint64_t most = 0;
  for (size_t n = 0; n < begins.size(); ++n) {
    alive += begins[n];
    alive -= ends[n];
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace nodewise
