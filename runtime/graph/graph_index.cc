#include "nodewise/graph/graph_index.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/device/device.h"
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

// Two tensors may share a slot if one is read for the last time before the
// other is written. Each slot is gone through once, in the order of writing.
class PlanChecker {
 public:
  PlanChecker(const Graph& graph, const StoragePlan& plan,
              DiagnosticList* diagnostics)
      : graph_(graph), index_(graph, plan), diagnostics_(diagnostics) {}

  void Check() {
    const size_t slots = index_.plan().slots.size();
    for (uint32_t slot = 0; slot < slots; ++slot) CheckSlot(slot);
  }

 private:
  // Names may be as long as the file.
  template <typename Id>
  std::string TitleOf(Id id) const {
    return std::string(Shortened(index_.TitleOf(id)));
  }

  void CheckSlot(uint32_t slot) {
    // The tensors are in the order in which they are written, so each need only
    // be compared with the earlier one that lives longest.
    const absl::Span<const EntryId> tensors = index_.TensorsIn(slot);
    if (tensors.empty()) return;
    EntryId holder = tensors[0];
    for (const EntryId tensor : tensors.subspan(1)) {
      CheckPair(holder, tensor);
      if (index_.LifetimeOf(tensor).last_read >=
          index_.LifetimeOf(holder).last_read) {
        holder = tensor;
      }
      CheckReuse(tensors[0], tensor);
    }
  }

  // Checks `later`, which is written to the slot that `earlier` is in.
  void CheckPair(EntryId earlier, EntryId later) {
    const Lifetime& first = index_.LifetimeOf(earlier);
    const Lifetime& second = index_.LifetimeOf(later);
    if (second.written == first.written && first.last_read < 0) {
      // Two inputs, or two outputs of one node: either may be written last.
      if (second.last_read >= 0) CheckPair(later, earlier);
      return;
    }
    if (second.written > first.last_read) return;
    if (const std::optional<uint32_t> output = OutputOfGraph(earlier)) {
      Add(later,
          fmt::format("{} overwrites {}, which is the graph's output {}",
                      TitleOf(later), TitleOf(earlier), *output),
          "a storage of its own for an output of the graph");
      return;
    }
    if (second.written == first.last_read && second.written >= 0) {
      // The node reads the one and writes the other. Compilers of TVM 0.6 do
      // that on purpose for operators that work in place.
      Add(later,
          fmt::format("{} is written over {}, which the same node reads",
                      TitleOf(later), TitleOf(earlier)),
          "another storage, unless the operator works in place",
          Severity::kWarning);
      return;
    }
    const NodeId last_reader{static_cast<uint32_t>(first.last_read)};
    Add(later,
        fmt::format("{} overwrites {}, which {} reads later", TitleOf(later),
                    TitleOf(earlier), TitleOf(last_reader)),
        "another storage");
  }

  // Returns which output of the graph the tensor is, the first if it is
  // several.
  std::optional<uint32_t> OutputOfGraph(EntryId base) const {
    const auto head =
        std::ranges::find_if(graph_.heads, [&](const EntryRef& ref) {
          return index_.BaseOf(graph_.EntryOf(ref)) == base;
        });
    if (head == graph_.heads.end()) return std::nullopt;
    return static_cast<uint32_t>(head - graph_.heads.begin());
  }

  // An input is lost after one run if a node reuses its storage once it is
  // read.
  void CheckReuse(EntryId input, EntryId later) {
    const Lifetime& first = index_.LifetimeOf(input);
    const Lifetime& second = index_.LifetimeOf(later);
    if (first.written >= 0 || second.written < 0) return;
    if (second.written <= first.last_read) return;
    const std::string& name = graph_.node(index_.NodeOf(input)).name;
    Add(later,
        fmt::format("{} overwrites the input {}", TitleOf(later),
                    Shortened(name)),
        "another storage, or a second run needs the input set again",
        Severity::kWarning);
  }

  void Add(EntryId later, const std::string& found, std::string expected,
           Severity severity = Severity::kError) {
    diagnostics_->Add({severity, graph_.text.name,
                       fmt::format("/attrs/storage_id/1/{}", Index(later)), 0,
                       0,
                       fmt::format("storage {}, where {}",
                                   graph_.entry(later).storage_id, found),
                       std::move(expected), ""});
  }

  const Graph& graph_;
  const GraphIndex index_;
  DiagnosticList* diagnostics_;
};

}  // namespace

// The compiler gives entries with equal storage ids one memory. Ids may be any
// numbers, so slots are numbered in the order in which they are met.
absl::StatusOr<StoragePlan> PlanStorage(const Graph& graph,
                                        int default_device_type) {
  StoragePlan plan;
  const size_t count = graph.entries.size();
  plan.slot_of.resize(count);
  plan.base_of.resize(count);
  std::unordered_map<int32_t, uint32_t> slot_of_id;
  slot_of_id.reserve(count);
  for (uint32_t e = 0; e < count; ++e) {
    const GraphEntry& entry = graph.entries[e];
    const int device =
        graph.has_device_index ? entry.device_type : default_device_type;
    const auto [place, is_new] = slot_of_id.try_emplace(
        entry.storage_id, static_cast<uint32_t>(plan.slots.size()));
    if (is_new) plan.slots.push_back({entry.storage_id, 0, device, ""});
    StorageSlot& slot = plan.slots[place->second];
    if (slot.device_type != device) {
      return GraphError(
          graph, fmt::format("/attrs/storage_id/1/{}", e),
          fmt::format("storage {} for an entry on {}", entry.storage_id,
                      DeviceTypeName(device)),
          fmt::format("an entry on {}, as the others in that storage are",
                      DeviceTypeName(slot.device_type)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(entry.shape, entry.dtype));
    slot.bytes = std::max(slot.bytes, bytes);
    if (!graph.storage_scopes.empty()) slot.scope = graph.storage_scopes[e];
    plan.slot_of[e] = place->second;
    plan.base_of[e] = e;
  }
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    if (node.kind != GraphNode::Kind::kFunction ||
        node.function != kNopFunction) {
      continue;
    }
    const uint32_t input = Index(graph.EntryOf(node.inputs[0]));
    const uint32_t output = Index(graph.EntryOf(NodeId{n}, 0));
    if (plan.slot_of[input] == plan.slot_of[output]) {
      plan.base_of[output] = plan.base_of[input];
    }
  }
  return plan;
}

template <typename T>
// Counts the items of each list, adds the counts up to where each begins, and
// fills the lists in the order of the members: one allocation for all lists of
// a graph.
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

// The executor calls nothing for these, so they take no time and read nothing.
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

void CheckPlan(const Graph& graph, const StoragePlan& plan,
               DiagnosticList* diagnostics) {
  PlanChecker(graph, plan, diagnostics).Check();
  LocateDiagnostics(graph.text, diagnostics);
}

// A run hands outputs out at its end, when a node may have written over one
// that was finished.
std::vector<LostOutput> LostOutputs(const GraphIndex& index) {
  const Graph& graph = index.graph();
  std::vector<LostOutput> lost;
  for (uint32_t h = 0; h < graph.heads.size(); ++h) {
    const EntryId entry = graph.EntryOf(graph.heads[h]);
    const EntryId base = index.BaseOf(entry);
    const int64_t written = index.LifetimeOf(base).written;
    // The tensors are in the order in which they are written: the last one is
    // what the storage holds in the end.
    const EntryId last =
        index.TensorsIn(index.plan().slot_of[Index(base)]).back();
    if (index.LifetimeOf(last).written > written) {
      lost.push_back({h, entry, last});
    }
  }
  return lost;
}

}  // namespace nodewise
