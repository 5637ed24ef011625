#include <algorithm>
#include <optional>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

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
