#include "nodewise/graph/storage_plan.h"

#include <algorithm>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

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

}  // namespace nodewise
