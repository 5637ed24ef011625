#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "runtime/memcheck/fault_handler.h"

namespace nodewise {

// How a network is run with its memory guarded.
struct GuardedRunSettings {
  size_t red_zone = 256;
  uint8_t zone_byte = 0xa7;    // What red zones hold.
  uint8_t poison_byte = 0xff;  // What dead slots hold: NaN in every float type.
  std::optional<StoragePlan> plan;
};

// A fault and the parts of its line, which is made when its extent is known:
// "node 17 (conv3)" wrote 64 bytes "past its output 0" (first at byte 4096).
struct SeenFault {
  MemoryFault fault;
  std::string actor;
  FaultAccess access = FaultAccess::kWrite;
  std::string place;  // Empty if fault.text says it all.

  bool IsSameAs(const SeenFault& other) const;
  // Merges the same fault seen in another run.
  void Widen(const SeenFault& other);
  MemoryFault Finish() const;
};

struct GuardedRunResult {
  std::vector<SeenFault> faults;  // In the order of the run.
  bool had_more_faults = false;
  size_t nodes = 0;
  // HashBytes() of a function's output right after its node ran; 0
  // for inputs, free __nop and tensors that are not in host memory.
  ByEntry<uint64_t> hashes;
  std::vector<NamedTensor> outputs;
  ByNode<std::string> actors;  // "node 3 (relu)"
  ByEntry<NodeId> node_of;
  StoragePlan private_plan;
};

// Runs an executor that is made for this run and destroyed after it.
// REQUIRES: no other such run is going on in the process.
absl::StatusOr<GuardedRunResult> RunGuarded(const ExecutorMaker& make,
                                            const GuardedRunSettings& settings);

}  // namespace nodewise
