#include "contrib/locate/partial_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/private_storage.h"

namespace nodewise {
namespace {

constexpr uint32_t kNotTaken = UINT32_MAX;

// Takes over nodes of a graph one after the other.
class GraphTaker {
 public:
  explicit GraphTaker(const Graph& from)
      : from_(from), place_of_(from.nodes.size(), kNotTaken) {
    graph_.has_device_index = from.has_device_index;
    graph_.other_attrs = from.other_attrs;
    graph_.node_row_ptr.push_back(0);
  }

  // Takes a node whose inputs have been taken.
  void TakeNode(NodeId id) {
    GraphNode node = from_.node(id);
    for (EntryRef& ref : node.inputs) ref.node = place_of_[ref.node];
    std::vector<uint32_t> deps;
    for (const uint32_t dep : node.control_deps) {
      if (place_of_[dep] != kNotTaken) deps.push_back(place_of_[dep]);
    }
    node.control_deps = std::move(deps);
    place_of_[Index(id)] = static_cast<uint32_t>(graph_.nodes.size());
    AddNode(std::move(node), id);
  }

  // Adds a node that makes what `like` makes, and reads what has been taken.
  void AddNode(GraphNode node, NodeId like) {
    Add(std::move(node));
    for (uint32_t slot = 0; slot < from_.OutputsOf(like); ++slot) {
      AddEntry(from_.EntryOf(like, slot));
    }
    EndNode();
  }

  // Adds an input that stands for an entry, regardless of the node that makes
  // it.
  void AddInput(std::string name, EntryId entry) {
    GraphNode node;
    node.name = std::move(name);
    Add(std::move(node));
    AddEntry(entry);
    EndNode();
  }

  // Makes the outputs of the last node those of the graph.
  Graph Finish() {
    const auto last = static_cast<uint32_t>(graph_.nodes.size() - 1);
    const uint32_t outputs = graph_.OutputsOf(NodeId{last});
    for (uint32_t slot = 0; slot < outputs; ++slot) {
      graph_.heads.push_back({last, slot, 0});
    }
    return std::move(graph_);
  }

 private:
  void Add(GraphNode node) {
    if (node.kind == GraphNode::Kind::kInput) {
      graph_.arg_nodes.push_back(static_cast<uint32_t>(graph_.nodes.size()));
    }
    graph_.nodes.push_back(std::move(node));
  }

  void AddEntry(EntryId entry) {
    graph_.entries.push_back(from_.entry(entry));
    if (from_.storage_scopes.empty()) return;
    graph_.storage_scopes.push_back(from_.storage_scopes[Index(entry)]);
  }

  void EndNode() {
    graph_.node_row_ptr.push_back(static_cast<uint32_t>(graph_.entries.size()));
  }

  const Graph& from_;
  std::vector<uint32_t> place_of_;  // By node; kNotTaken for the others.
  Graph graph_;
};

// Gives tensors memory in the order in which they are made.
class StoragePlanner {
 public:
  // Returns an id for a tensor of that size: of memory that is free again if
  // there is any, preferably of the least that is large enough.
  int32_t Take(size_t bytes) {
    const auto better = [bytes](const Block& a, const Block& b) {
      const bool a_fits = a.bytes >= bytes;
      if (a_fits != (b.bytes >= bytes)) return a_fits;
      return a_fits ? a.bytes < b.bytes : a.bytes > b.bytes;
    };
    const auto best = std::min_element(free_.begin(), free_.end(), better);
    if (best == free_.end()) return next_++;
    const int32_t id = best->id;
    free_.erase(best);
    return id;
  }
  int32_t TakeForever() { return next_++; }
  void Free(int32_t id, size_t bytes) { free_.push_back({id, bytes}); }

 private:
  struct Block {
    int32_t id;
    size_t bytes;
  };
  std::vector<Block> free_;
  int32_t next_ = 0;
};

}  // namespace

Graph WithSoundStorage(Graph graph) {
  // Plans the storage of a graph whose tensors are all apart, in which only a
  // __nop makes no tensor of its own.
  const Graph apart = WithPrivateStorage(graph);
  const auto plan = PlanStorage(apart, kDLCPU);
  if (!plan.ok()) return apart;
  const GraphIndex index(apart, *plan);
  StoragePlanner planner;
  std::vector<EntryId> alive;
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    const EntryId entry{e};
    const NodeId node = index.NodeOf(entry);
    int32_t& id = graph.entries[e].storage_id;
    if (!index.IsBase(entry)) {
      id = graph.entry(index.BaseOf(entry)).storage_id;
      continue;
    }
    if (!graph.IsFunction(node)) {
      id = planner.TakeForever();
      continue;
    }
    const auto is_over = [&](EntryId other) {
      // A tensor that no node reads is written all the same.
      const Lifetime& lifetime = index.LifetimeOf(other);
      const bool over =
          std::max(lifetime.written, lifetime.last_read) < int64_t{Index(node)};
      if (over) {
        planner.Free(graph.entry(other).storage_id, index.BytesOf(other));
      }
      return over;
    };
    alive.erase(std::remove_if(alive.begin(), alive.end(), is_over),
                alive.end());
    id = planner.Take(index.BytesOf(entry));
    alive.push_back(entry);
  }
  return graph;
}

Graph GraphUpTo(const Graph& graph, NodeId last, std::vector<NodeId>* nodes) {
  std::vector<bool> is_needed(graph.nodes.size(), false);
  is_needed[Index(last)] = true;
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
        std::find(read.begin(), read.end(), graph.EntryOf(ref)) - read.begin();
    ref = {static_cast<uint32_t>(place), 0, 0};
  }
  one.control_deps.clear();
  taker.AddNode(std::move(one), node);
  Graph alone = taker.Finish();
  for (size_t i = 0; i < alone.entries.size(); ++i) {
    alone.entries[i].storage_id = static_cast<int32_t>(i);
  }
  return alone;
}

std::vector<EntryId> EntriesReadBy(const Graph& graph, NodeId node) {
  std::vector<EntryId> entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    const EntryId entry = graph.EntryOf(ref);
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) {
      entries.push_back(entry);
    }
  }
  return entries;
}

}  // namespace nodewise
