#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "runtime/memcheck/guarded_memory.h"

namespace nodewise {

// How a network is run with its memory guarded.
struct GuardedRunSettings {
  size_t red_zone = 256;
  uint8_t zone_byte = 0xa7;    // What red zones hold.
  uint8_t poison_byte = 0xff;  // What dead slots hold: NaN in every float type.
  std::optional<StoragePlan> plan;
  // SanitizeOptions::found.
  std::function<void(const Finding&)> found = nullptr;
};

// A finding and the parts of its message, which is made when the bytes are all
// known: wrote 64 bytes "past its output 0" (first at byte 4096).
struct SeenFinding {
  Finding finding;
  TrappedAccess access = TrappedAccess::kWrite;
  std::string touched = {};  // Empty if finding.found says it all.
  Extent bytes = {};

  NodeId node() const { return finding.node()->node; }
  Finding Finish() const;
};

struct GuardedRunResult {
  std::vector<SeenFinding> findings;  // In the order of the run.
  bool had_more_findings = false;
  size_t nodes = 0;
  // HashBytes() of a function's output right after its node ran; 0
  // for inputs, free __nop and tensors that are not in host memory.
  ByEntry<uint64_t> hashes;
  std::vector<NamedTensor> outputs;
  ByEntry<EntryPlace> places;   // At the node that makes it.
  ByEntry<uint32_t> output_of;  // Which of that node's outputs it is.
  StoragePlan private_plan;
};

// Runs an executor that is made for this run and destroyed after it.
// REQUIRES: no other such run is going on in the process.
absl::StatusOr<GuardedRunResult> RunGuarded(const ExecutorMaker& make,
                                            const GuardedRunSettings& settings);

}  // namespace nodewise
