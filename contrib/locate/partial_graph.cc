#include "contrib/locate/partial_graph.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/runner/node_graph.h"

namespace nodewise {
namespace {

constexpr uint32_t kNotTaken = UINT32_MAX;

// Takes over nodes of a graph one after the other. Entries are numbered in the
// order of their nodes, so each node comes with all that it makes at once.
class GraphTaker {
 public:
  explicit GraphTaker(const Graph& from)
      : from_(from), place_of_(from.nodes.size(), kNotTaken) {
    graph_.has_device_index = from.has_device_index;
    graph_.other_attrs = from.other_attrs;
    graph_.node_row_ptr.push_back(0);
  }

  // Takes a node whose inputs have been taken. What it must run behind need not
  // have been: only a part of the graph runs.
  void TakeNode(NodeId id) {
    GraphNode node = from_.node(id);
    for (EntryRef& ref : node.inputs) ref.node = place_of_[ref.node];
    for (uint32_t& dep : node.control_deps) dep = place_of_[dep];
    std::erase(node.control_deps, kNotTaken);
    place_of_[Index(id)] = static_cast<uint32_t>(graph_.nodes.size());
    Add(std::move(node), EntriesMadeBy(from_, id));
  }

  // Adds an input that stands for an entry, regardless of the node that makes
  // it.
  void AddInput(std::string name, EntryId entry) {
    GraphNode node;
    node.name = std::move(name);
    Add(std::move(node), {Index(entry), Index(entry) + 1});
  }

  // Adds a node that reads what has been added, and makes what the graph has
  // under these numbers.
  void Add(GraphNode node, IdRange<EntryId> makes) {
    if (node.kind == GraphNode::Kind::kInput) {
      graph_.arg_nodes.push_back(static_cast<uint32_t>(graph_.nodes.size()));
    }
    graph_.nodes.push_back(std::move(node));
    for (const EntryId entry : makes) {
      graph_.entries.push_back(from_.entry(entry));
      if (from_.storage_scopes.empty()) continue;
      graph_.storage_scopes.push_back(from_.storage_scopes[Index(entry)]);
    }
    graph_.node_row_ptr.push_back(static_cast<uint32_t>(graph_.entries.size()));
  }

  Graph Finish() {
    const auto last = static_cast<uint32_t>(graph_.nodes.size() - 1);
    const uint32_t outputs = graph_.OutputsOf(NodeId{last});
    for (uint32_t slot = 0; slot < outputs; ++slot) {
      graph_.heads.push_back({last, slot, 0});
    }
    return std::move(graph_);
  }

 private:
  const Graph& from_;
  std::vector<uint32_t> place_of_;  // By node; kNotTaken for the others.
  Graph graph_;
};

// Gives tensors memory in the order in which they are made.
struct StoragePlanner {
  struct Block {
    int32_t id;
    size_t bytes;
  };
  std::vector<Block> free = {};
  int32_t next = 0;

  // Returns an id for a tensor of that size: of memory that is free again if
  // there is any, preferably of the least that is large enough. Where none is,
  // the largest is taken: a slot is as large as its largest tensor, so this one
  // grows by the least.
  int32_t IdFor(size_t bytes) {
    const auto better = [bytes](const Block& a, const Block& b) {
      const bool a_fits = a.bytes >= bytes;
      if (a_fits != (b.bytes >= bytes)) return a_fits;
      return a_fits ? a.bytes < b.bytes : a.bytes > b.bytes;
    };
    const auto best = std::ranges::min_element(free, better);
    if (best == free.end()) return next++;
    const int32_t id = best->id;
    free.erase(best);
    return id;
  }
};

// The node at which a tensor is needed for the last time: one that no node
// reads is written all the same.
int64_t LastUseOf(const GraphIndex& index, EntryId entry) {
  const Lifetime& life = index.LifetimeOf(entry);
  return std::max(life.written, life.last_read);
}

}  // namespace

std::vector<EntryId> EntriesReadBy(const Graph& graph, NodeId node) {
  std::vector<EntryId> entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    const EntryId entry = graph.EntryOf(ref);
    if (std::ranges::count(entries, entry) == 0) entries.push_back(entry);
  }
  return entries;
}

absl::StatusOr<Region> RegionOfTensors(const GraphNode& node,
                                       absl::Span<const NDArray> read,
                                       absl::Span<const NDArray> made,
                                       const OpSet& ops) {
  std::vector<const DLTensor*> arguments;
  for (const auto& tensors : {read, made}) {
    for (const NDArray& each : tensors) arguments.push_back(each.tensor());
  }
  return RegionOf({node.function, node.attrs, arguments, made.size()}, ops);
}

NDArray GivenFor(ValueId id, const Network& region,
                 absl::Span<const NDArray> inputs) {
  if (id == kNoValue) return NDArray();
  const auto all = region.inputs();
  const auto input = std::ranges::find(all, id);
  if (input == all.end()) return region.value(id).data;
  return inputs[static_cast<size_t>(input - all.begin())];
}

Graph WithPrivateStorage(Graph graph) {
  int32_t next = FirstFreeStorageId(graph);
  const Graph planned = graph;
  // Only functions get new ids: parameters that are linked into a library are
  // found by theirs.
  for (const NodeId node : FunctionNodesOf(graph)) {
    for (const EntryId made : EntriesMadeBy(graph, node)) {
      int32_t& id = graph.entries[Index(made)].storage_id;
      const bool is_nop = graph.node(node).function == kNopFunction;
      const EntryId read =
          is_nop ? graph.EntryOf(graph.node(node).inputs[0]) : made;
      const bool shares = is_nop && planned.entry(read).storage_id == id;
      id = shares ? graph.entry(read).storage_id : next++;
    }
  }
  return graph;
}

uint64_t LargestLiveSet(const Graph& graph, const Params& params) {
  // Where all tensors are apart, only a __nop makes none of its own.
  const Graph apart = WithPrivateStorage(graph);
  const auto plan = PlanStorage(apart, kDLCPU);
  if (!plan.ok()) return 0;
  const GraphIndex index(apart, *plan);
  std::set<std::string> names;
  for (const NamedTensor& param : params.tensors) names.insert(param.name);
  // By node: how many bytes come to life with it, and how many end before it.
  // The outputs live on behind the last node, which is one place more.
  std::vector<uint64_t> begins(graph.nodes.size() + 1);
  std::vector<uint64_t> ends(graph.nodes.size() + 2);
  for (const EntryId entry : AllEntries(graph)) {
    if (!index.IsBase(entry)) continue;
    const NodeId maker = index.NodeOf(entry);
    const bool is_function = graph.IsFunction(maker);
    if (!is_function && names.contains(graph.node(maker).name)) continue;
    const int64_t begin = std::max<int64_t>(index.LifetimeOf(entry).written, 0);
    const int64_t last = std::max(begin, LastUseOf(index, entry));
    begins[static_cast<size_t>(begin)] += index.BytesOf(entry);
    ends[static_cast<size_t>(last) + 1] += index.BytesOf(entry);
  }
  uint64_t alive = 0, most = 0;
  for (size_t n = 0; n < begins.size(); ++n) {
    alive += begins[n] - ends[n];
    most = std::max(most, alive);
  }
  return most;
}

Graph WithSoundStorage(Graph graph) {
  // Plans the storage of a graph whose tensors are all apart, in which only a
  // __nop makes no tensor of its own.
  Graph apart = WithPrivateStorage(graph);
  const auto plan = PlanStorage(apart, kDLCPU);
  if (!plan.ok()) return apart;
  const GraphIndex index(apart, *plan);
  StoragePlanner planner;
  std::vector<EntryId> alive;
  for (const EntryId entry : AllEntries(graph)) {
    const NodeId node = index.NodeOf(entry);
    int32_t& id = graph.entries[Index(entry)].storage_id;
    if (!index.IsBase(entry)) {
      id = graph.entry(index.BaseOf(entry)).storage_id;
      continue;
    }
    // Inputs and parameters are never written over: parts of a network read
    // its parameters where they lie (ParamUse::kInPlace).
    if (!graph.IsFunction(node)) {
      id = planner.next++;
      continue;
    }
    std::erase_if(alive, [&](EntryId other) {
      if (LastUseOf(index, other) >= int64_t{Index(node)}) return false;
      planner.free.push_back(
          {graph.entry(other).storage_id, index.BytesOf(other)});
      return true;
    });
    id = planner.IdFor(index.BytesOf(entry));
    alive.push_back(entry);
  }
  return graph;
}

Graph GraphUpTo(const Graph& graph, NodeId last, std::vector<NodeId>* nodes) {
  std::vector<bool> is_needed(graph.nodes.size(), false);
  is_needed[Index(last)] = true;
  // Nodes read earlier ones alone, so one pass from the end finds them all.
  for (uint32_t n = Index(last) + 1; n-- > 0;) {
    if (!is_needed[n]) continue;
    for (const EntryRef& ref : graph.nodes[n].inputs) {
      is_needed[ref.node] = true;
    }
  }
  GraphTaker taker(graph);
  for (uint32_t n = 0; n <= Index(last); ++n) {
    if (!is_needed[n]) continue;
    taker.TakeNode(NodeId{n});
    if (nodes != nullptr) nodes->push_back(NodeId{n});
  }
  return taker.Finish();
}

Graph GraphOfOne(const Graph& graph, NodeId node) {
  const std::vector<EntryId> read = EntriesReadBy(graph, node);
  GraphTaker taker(graph);
  for (size_t i = 0; i < read.size(); ++i) {
    taker.AddInput("input" + std::to_string(i), read[i]);
  }
  GraphNode one = graph.node(node);
  for (EntryRef& ref : one.inputs) {
    const auto place =
        std::ranges::find(read, graph.EntryOf(ref)) - read.begin();
    ref = {static_cast<uint32_t>(place), 0, 0};
  }
  one.control_deps.clear();
  taker.Add(std::move(one), EntriesMadeBy(graph, node));
  Graph alone = taker.Finish();
  for (size_t i = 0; i < alone.entries.size(); ++i) {
    alone.entries[i].storage_id = static_cast<int32_t>(i);
  }
  return alone;
}

}  // namespace nodewise
