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
// past its output, to an input or to a tensor that is none of its arguments, a
// plan that lets a node overwrite what a later node still reads. What their
// lines mean and what cannot be found is in docs/memory_faults.md.

struct MemoryFault {
  enum class Kind {
    kOverrun,        // Wrote beside an input or output of its own.
    kInputWritten,   // Wrote to an input, which it was given to read.
    kStrayWrite,     // Wrote to memory of an entry that is no argument.
    kStrayRead,      // Read memory of an entry that is no argument.
    kOverwritten,    // Reads an entry that another node has overwritten; or is
                     // that other node, where nobody but the host reads it.
    kUndersized,     // The plan's slot is smaller than its entry.
    kWild,           // Read beside its arguments, or touched memory beside
                     // others' entries.
    kPlanMatters,    // Another result than with storage of its own for all.
    kUninitialised,  // The result depends on what lay in memory before.
    kUnsteady        // Another result in a second run of the same, so that the
                     // last two cannot be judged.
  };
  Kind kind{};
  NodeId node{};       // The one that did it.
  EntryId entry{};     // Whose memory it was.
  int64_t offset = 0;  // Of the first byte, from the entry's first.
  uint64_t bytes = 0;  // From the first touched to the last, where known.
  // "node 17 (conv3) wrote 64 bytes past its output 0 (first at byte 4096)".
  std::string text;
};

// "overrun", "input written", "uninitialised", ...
std::string_view NameOf(MemoryFault::Kind kind);

inline constexpr size_t kMostRedZone = size_t{1} << 30;

struct SanitizeOptions {
  // Bytes on both sides of every entry, or more; at most kMostRedZone.
  size_t red_zone = 256;
  bool compare_private = true;  // Run again with storage of its own for all.
  bool compare_poison = true;   // Run again over other uninitialised bytes.
};

struct SanitizeReport {
  std::vector<MemoryFault> faults;  // In the order of the run.
  bool had_more_faults = false;     // Than are listed.
  // Why comparisons could not be made: an error of one of their runs each. What
  // they would have shown is not among the faults.
  std::vector<absl::Status> not_compared;
  size_t nodes = 0;  // That ran.
  // The outputs of the sanitized run, copied.
  std::vector<NamedTensor> outputs;
};

// Runs the network with every slot in pages of its own: guard pages around,
// red zones beside each entry, everything that is not an argument of the
// running node out of reach, its inputs read-only, dead slots poisoned. A fault
// is noted and the run goes on. An error of a node's function ends it; it is
// returned with the first fault that came before. The runs that are compared
// with the first may fail: then its report is returned all the same.
//
// `make` must pass on DebugOptions::allocate, and `plan` where that is set.
// Only host memory that the executor asks for is guarded, not the caller's or
// the library's own, and none on other devices.
//
// Catches SIGSEGV and SIGBUS while it runs, and restores the handlers. One call
// at a time in a process (kFailedPrecondition).
absl::StatusOr<SanitizeReport> Sanitize(const ExecutorMaker& make,
                                        const SanitizeOptions& options);

// The plan that gives every function's output a slot of its own. Free __nop
// keep sharing; inputs stay where they are.
StoragePlan PrivatePlan(const Graph& graph, const StoragePlan& plan);

}  // namespace nodewise
