#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/storage_plan.h"

namespace nodewise {

// Faults of memory that show only while a network runs: a kernel that writes
// past its output, to an input or to a tensor that is not among its arguments,
// a plan that lets a node overwrite what a later node still reads.
// docs/memory_faults.md says what the reported lines mean and what cannot be
// found.

struct MemoryFault {
  enum class Kind {
    kOverrun,        // Wrote outside of its own input or output.
    kInputWritten,   // Wrote to an input, which it was given to read.
    kStrayWrite,     // Wrote to an entry that is not an argument.
    kStrayRead,      // Read an entry that is not an argument.
    kOverwritten,    // Reads an entry that another node overwrote; or is that
                     // other node, if only the host reads the entry.
    kUndersized,     // The plan's slot is smaller than its entry.
    kWild,           // Read outside of its arguments, or touched memory next to
                     // other entries.
    kPlanMatters,    // The result differs when every entry has its own storage.
    kUninitialised,  // The result depends on what lay in memory before.
    kUnsteady        // A second, identical run had another result, so that the
                     // last two cannot be judged.
  };
  Kind kind{};
  NodeId node{};       // The node at fault.
  EntryId entry{};     // Whose memory it was.
  int64_t offset = 0;  // The first byte, counted from the entry's first.
  uint64_t bytes = 0;  // From the first touched to the last, where known.
  // "node 17 (conv3) wrote 64 bytes past its output 0 (first at byte 4096)".
  std::string text;
};

// "overrun", "input written", "uninitialised", ...
std::string_view NameOf(MemoryFault::Kind kind);

inline constexpr size_t kMostRedZone = size_t{1} << 30;

struct SanitizeOptions {
  // The minimum number of bytes on both sides of every entry; up to
  // kMostRedZone.
  size_t red_zone = 256;
  bool compare_private = true;  // Run again with a slot for every entry.
  bool compare_poison = true;   // Run again with other bytes in dead memory.
};

struct SanitizeReport {
  std::vector<MemoryFault> faults;  // In the order of the run.
  bool had_more_faults = false;     // More than are listed.
  // Why comparisons could not be made: for each, the error of its run. The
  // faults lack what they would have shown.
  std::vector<absl::Status> not_compared;
  size_t nodes = 0;  // How many nodes ran.
  // The outputs of the sanitized run, copied.
  std::vector<NamedTensor> outputs;
};

// Runs the network with every slot in its own pages: guard pages around it, red
// zones beside each entry, everything that is not an argument of the running
// node inaccessible, its inputs read-only, dead slots poisoned. A fault is
// noted and the run goes on. An error of a node's function ends it and is
// returned with the first fault before it. If one of the runs that are compared
// with the first fails, the report of the first is still returned.
//
// `make` must pass on DebugOptions::allocate, and `plan` where that is set.
// Only host memory that the executor allocates is guarded: not the caller's or
// the library's own, and no memory on other devices.
//
// Catches SIGSEGV and SIGBUS while it runs, and restores the handlers. Fails
// with kFailedPrecondition while another call runs in the process.
absl::StatusOr<SanitizeReport> Sanitize(const ExecutorMaker& make,
                                        const SanitizeOptions& options);

// Returns the plan that gives every function's output its own slot. Free __nop
// keep sharing; inputs stay where they are.
StoragePlan PrivatePlan(const GraphIndex& index);

}  // namespace nodewise
