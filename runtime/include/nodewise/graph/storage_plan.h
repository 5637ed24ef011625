#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

class GraphIndex;

// A block of memory that entries share.
struct StorageSlot {
  int32_t storage_id = 0;  // The graph's number for it.
  size_t bytes = 0;        // The largest of its entries.
  int device_type = 0;
  std::string scope;  // "" or a memory scope such as "global.texture".
};

// Which entry lives where: the plan that the compiler made, and how large it
// makes each slot.
struct StoragePlan {
  std::vector<StorageSlot> slots;
  std::vector<uint32_t> slot_of;  // By entry.
  // By entry: the entry that owns the tensor. A __nop that shares its input's
  // slot makes no tensor of its own; every other entry is its own base.
  std::vector<uint32_t> base_of;
};

// Follows the graph's storage ids, which may be any numbers. Entries without a
// device_index are on `default_device_type`. Fails with kDataLoss if one id is
// used on two devices. REQUIRES: the graph passed CheckGraph.
absl::StatusOr<StoragePlan> PlanStorage(const Graph& graph,
                                        int default_device_type);

// Lists what is wrong with a plan: entries that share a slot while both are
// needed, outputs and parameters that a later node overwrites. Such faults do
// not keep the graph from running, but make its results wrong.
void CheckPlan(const Graph& graph, const StoragePlan& plan,
               DiagnosticList* diagnostics);

// An output of the graph that a later node writes over, so that a run hands out
// what that node made.
struct LostOutput {
  uint32_t output = 0;  // Its number among the graph's outputs.
  EntryId entry{};      // The tensor that it should be.
  EntryId written_over_by{};
};
// Returns the outputs that are lost by the plan, in their order. REQUIRES:
// there is one.
std::vector<LostOutput> LostOutputs(const GraphIndex& index);

}  // namespace nodewise
