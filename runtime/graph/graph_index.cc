#include "nodewise/graph/graph_index.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Counted for tests, which see that searches hand an index down instead of
// making it again.
std::atomic<int64_t> count_made = 0;

template <typename Id>
absl::StatusOr<Id> CheckedId(int64_t number, size_t count, const char* one,
                             const char* several) {
  if (number >= 0 && static_cast<uint64_t>(number) < count) {
    return Id{static_cast<uint32_t>(number)};
  }
  return OutOfRange("{} {}: the graph has {} {}", one, number, count, several);
}

// Only digits that fill the whole text: a name such as "#7a" is a name.
std::optional<uint32_t> NumberIn(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// A name that is unique is its own key. Others get the number of their node,
// again and again until no name reads like that.
ByNode<std::string> MakeKeys(const Graph& graph) {
  std::unordered_map<std::string_view, size_t> uses;
  for (const GraphNode& node : graph.nodes) ++uses[node.name];
  ByNode<std::string> keys(graph);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string& name = graph.nodes[n].name;
    std::string& key = keys[NodeId{n}];
    key = name;
    // A node may be called "a#1" while two others are called "a".
    for (bool taken = uses[name] > 1; taken; taken = uses.count(key) > 0) {
      key += fmt::format("#{}", n);
    }
  }
  return keys;
}

}  // namespace

// One allocation holds all lists of a graph: the counts of the items, added up,
// say where each list begins.
template <typename T>
GraphIndex::Lists<T>::Lists(size_t count,
                            const std::vector<std::pair<uint32_t, T>>& members)
    : begins_(count + 1), items_(members.size()) {
  for (const auto& [list, item] : members) ++begins_[list + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<uint32_t> next = begins_;
  for (const auto& [list, item] : members) items_[next[list]++] = item;
}

GraphIndex::GraphIndex(const Graph& graph, const StoragePlan* plan)
    : graph_(graph),
      plan_(plan),
      node_of_(graph),
      bytes_(graph),
      readers_(FindReaders()),
      tensors_(FindTensors()),
      lifetimes_(graph) {
  FindSizes();
  FindLifetimes();
  ++count_made;
}

int64_t GraphIndex::CountMade() { return count_made; }

void GraphIndex::FindSizes() {
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    for (uint32_t o = 0; o < graph_.OutputsOf(NodeId{n}); ++o) {
      const EntryId entry = graph_.EntryOf(NodeId{n}, o);
      const GraphEntry& type = graph_.entry(entry);
      node_of_[entry] = NodeId{n};
      bytes_[entry] = TensorBytes(type.shape, type.dtype).value_or(0);
    }
  }
}

GraphIndex::Lists<NodeId> GraphIndex::FindReaders() const {
  std::vector<std::pair<uint32_t, NodeId>> reads;
  // Nodes with as many inputs as the file is long would take for ever if each
  // input were compared with those before it.
  ByEntry<uint32_t> last_reader(graph_, UINT32_MAX);
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (!graph_.IsFunction(NodeId{n})) continue;
    for (const EntryRef& ref : graph_.nodes[n].inputs) {
      const EntryId entry = graph_.EntryOf(ref);
      if (last_reader[entry] == n) continue;
      last_reader[entry] = n;
      reads.emplace_back(Index(entry), NodeId{n});
    }
  }
  return Lists<NodeId>(graph_.entries.size(), reads);
}

// The order is that of writing, which the check of the plan relies on.
GraphIndex::Lists<EntryId> GraphIndex::FindTensors() const {
  if (plan_ == nullptr) return Lists<EntryId>(0, {});
  std::vector<std::pair<uint32_t, EntryId>> tensors;
  // Inputs are written first wherever they stand among the nodes.
  for (const bool is_function : {false, true}) {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.IsFunction(NodeId{n}) != is_function) continue;
      for (uint32_t o = 0; o < graph_.OutputsOf(NodeId{n}); ++o) {
        const EntryId entry = graph_.EntryOf(NodeId{n}, o);
        if (!IsBase(entry)) continue;
        tensors.emplace_back(plan_->slot_of[Index(entry)], entry);
      }
    }
  }
  return Lists<EntryId>(plan_->slots.size(), tensors);
}

// An output of the graph is read by the caller after the last node, even if
// nodes read it before.
void GraphIndex::FindLifetimes() {
  for (uint32_t e = 0; e < graph_.entries.size(); ++e) {
    const EntryId entry{e};
    const NodeId maker = NodeOf(entry);
    if (graph_.IsFunction(maker)) lifetimes_[entry].written = Index(maker);
    int64_t& last_read = lifetimes_[BaseOf(entry)].last_read;
    for (const NodeId reader : ReadersOf(entry)) {
      if (IsFree(reader)) continue;
      last_read = std::max<int64_t>(last_read, Index(reader));
    }
  }
  for (const EntryRef& head : graph_.heads) {
    lifetimes_[BaseOf(graph_.EntryOf(head))].last_read =
        static_cast<int64_t>(graph_.nodes.size());
  }
}

// Inputs are never called, nor are __nop that share their input's memory: they
// take no time and read nothing.
bool GraphIndex::IsFree(NodeId node) const {
  if (!graph_.IsFunction(node)) return true;
  return graph_.node(node).function == kNopFunction &&
         !IsBase(graph_.EntryOf(node, 0));
}

// Most users never ask for a key, and making them takes a hash table of all
// names.
const ByNode<std::string>& GraphIndex::keys() const {
  if (keys_.empty()) keys_ = MakeKeys(graph_);
  return keys_;
}

std::string GraphIndex::KeyOf(EntryId entry) const {
  return fmt::format("{}:{}", KeyOf(NodeOf(entry)), OutputOf(entry));
}

std::string GraphIndex::TitleOf(EntryId entry) const {
  return fmt::format("output {} of {}", OutputOf(entry),
                     TitleOf(NodeOf(entry)));
}

absl::StatusOr<NodeId> GraphIndex::NodeAt(int64_t number) const {
  return CheckedId<NodeId>(number, graph_.nodes.size(), "node", "nodes");
}

absl::StatusOr<EntryId> GraphIndex::EntryAt(int64_t number) const {
  return CheckedId<EntryId>(number, graph_.entries.size(), "entry", "entries");
}

// A key wins over a name, a name over "#7"; the name of an operation that was
// fused into a node is known, too, so that the message can say what to do.
absl::StatusOr<NodeId> GraphIndex::FindNode(std::string_view key) const {
  std::vector<std::string> same_name;
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (KeyOf(NodeId{n}) == key) return NodeId{n};
    if (graph_.nodes[n].name == key) same_name.push_back(KeyOf(NodeId{n}));
  }
  if (!same_name.empty()) {
    return InvalidArgument(
        "node {}: {} nodes have that name, expected one of {}", key,
        same_name.size(), ListOf(same_name));
  }
  if (key.starts_with('#')) {
    const std::optional<uint32_t> number = NumberIn(key.substr(1));
    if (number.has_value() && *number < graph_.nodes.size()) {
      return NodeId{*number};
    }
    return NotFound("node {}: the graph has {} nodes", key,
                    graph_.nodes.size());
  }
  if (const auto node = NodeCovering(graph_, key)) {
    return NotFound(
        "node {}: is one of the operations in node {}, expected a node ({} "
        "makes a node of each operation)",
        key, KeyOf(*node), NameOf(Way::kUnfused));
  }
  return NotFound("node {}: the graph has no such node{}", key,
                  DidYouMean(key, {keys().begin(), keys().end()}));
}

absl::StatusOr<EntryId> GraphIndex::FindEntry(std::string_view key) const {
  // A name may hold a colon itself, so the whole text is tried as a name first.
  auto node = FindNode(key);
  std::string_view name = key;
  uint32_t output = 0;
  const size_t colon = key.rfind(':');
  if (absl::IsNotFound(node.status()) && colon != key.npos) {
    const std::optional<uint32_t> number = NumberIn(key.substr(colon + 1));
    if (!number.has_value()) return node.status();
    output = *number;
    name = key.substr(0, colon);
    node = FindNode(name);
  }
  NODEWISE_RETURN_IF_ERROR(node.status());
  if (output < graph_.OutputsOf(*node)) return graph_.EntryOf(*node, output);
  return OutOfRange("output {} of node {}, which has {}", output, name,
                    graph_.OutputsOf(*node));
}

}  // namespace nodewise
