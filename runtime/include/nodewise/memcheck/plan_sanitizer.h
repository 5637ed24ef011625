#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// Misuse of memory that shows only while a network runs: a kernel that writes
// past its output, to an input or to a tensor that is not among its arguments,
// a plan that lets a node overwrite what a later node still reads.
// docs/memory_faults.md says what the reported lines mean and what cannot be
// found.

// The kinds of findings. Their place is the node at fault, with the entry whose
// memory it was if there is one. Those that know which bytes were touched have
// the numbers `offset`, which is counted from the entry's first byte, and
// `bytes`, from the first touched to the last. Further numbers say which
// `input` or `output` of the node it was, and which `storage` of the plan.
namespace memory_kinds {
inline constexpr std::string_view kPart = "memory";
inline constexpr auto kError = Severity::kError;

inline constexpr FindingKind kOverrun = {
    "overrun", kPart, kError, "wrote outside of its own input or output", true};
inline constexpr FindingKind kInputWritten = {
    "input-written", kPart, kError,
    "wrote to an input, which it was given to read", true};
inline constexpr FindingKind kStrayWrite = {
    "stray-write", kPart, kError, "wrote to an entry that is not an argument",
    true};
inline constexpr FindingKind kStrayRead = {
    "stray-read", kPart, kError, "read an entry that is not an argument", true};
// Also has the number `overwriting_node`, which is the place's own if only the
// host reads the entry.
inline constexpr FindingKind kOverwritten = {
    "overwritten", kPart, kError,
    "the memory plan lets one node overwrite what is still to be read", true};
// `bytes` is the entry's size, `storage_bytes` that of the plan's slot.
inline constexpr FindingKind kUndersized = {
    "undersized", kPart, kError, "the plan's storage is smaller than its entry",
    true};
inline constexpr FindingKind kWild = {
    "wild", kPart, kError,
    "read outside of its arguments, or touched memory next to other entries",
    true};
inline constexpr FindingKind kTensorChanged = {
    "tensor-changed", kPart, kError,
    "changed what it is told of a tensor: shape, address, type", true};
inline constexpr FindingKind kProcessChanged = {
    "process-changed", kPart, kError,
    "left something changed that all code of the process shares: working "
    "folder, descriptors, limits, signals, locale",
    true};
inline constexpr FindingKind kPlanMatters = {
    "plan-matters", kPart, kError,
    "the result differs when every entry has its own storage"};
inline constexpr FindingKind kUninitialised = {
    "uninitialised", kPart, kError,
    "the result depends on what lay in memory before"};
inline constexpr FindingKind kUnsteady = {
    "unsteady", kPart, kError,
    "a second, identical run had another result, so that plan-matters and "
    "uninitialised cannot be judged"};

inline constexpr FindingKind kAll[] = {
    kOverrun,        kInputWritten, kStrayWrite,    kStrayRead,
    kOverwritten,    kUndersized,   kWild,          kTensorChanged,
    kProcessChanged, kPlanMatters,  kUninitialised, kUnsteady};
}  // namespace memory_kinds

inline constexpr size_t kMostRedZone = size_t{1} << 30;

struct SanitizeOptions {
  // The minimum number of bytes on both sides of every entry; up to
  // kMostRedZone.
  size_t red_zone = 256;
  bool compare_private = true;  // Run again with a slot for every entry.
  bool compare_poison = true;   // Run again with other bytes in dead memory.
  // Called with each finding of a run as soon as it is known, also with those
  // of later runs that are the same: what follows may end the process.
  std::function<void(const Finding&)> found = nullptr;
};

struct SanitizeReport {
  // They are of memory_kinds, and float_kinds::kLeftChanged; in the order of
  // the run.
  std::vector<Finding> findings;
  bool had_more_findings = false;  // More than are listed.
  // Why comparisons could not be made: for each, the error of its run. The
  // findings lack what they would have shown.
  std::vector<absl::Status> not_compared;
  size_t nodes = 0;  // How many nodes ran.
  // The outputs of the sanitized run, copied.
  std::vector<NamedTensor> outputs;
};

// Runs the network with every slot in its own pages: guard pages around it, red
// zones beside each entry, everything that is not an argument of the running
// node inaccessible, its inputs read-only, dead slots poisoned. Findings are
// noted and the run goes on. An error of a node's function ends it and is
// returned with the first finding before it. If one of the runs that are
// compared with the first fails, the report of the first is still returned.
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
