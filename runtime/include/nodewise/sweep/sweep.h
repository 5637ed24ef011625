#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/finding.h"

namespace nodewise {

// Finds results that depend on what they should not depend on: the number of
// threads, the addresses of buffers, their previous contents, the time of day.

struct SweepOptions {
  std::vector<int> threads;  // Empty: 1, 2, 3 and NumThreads(), each once.
  // Ways to lay the buffers out in memory: the second differs from the first
  // only in the bytes of unused memory, the third only in the addresses, all
  // further ones in both.
  int layouts = 3;
  int repeats = 2;  // Runs of every combination.
  // Called with the runs done and their total; may be null.
  std::function<void(size_t, size_t)> progress;
};

// The kinds of findings: a tensor that was not always the same where a
// difference begins. They say when the tensor was found to differ. Their place
// is the node and the entry that differed.
//
// The numbers are those of two runs with different results: `threads` and
// `other_threads`, `layout` and `other_layout`, which are counted from 0. If
// they are the same, so were the runs. `input` or `output` says which of the
// node's tensors it was.
namespace sweep_kinds {
inline constexpr std::string_view kPart = "sweep";
inline constexpr auto kError = Severity::kError;

inline constexpr FindingKind kGivenDiffers = {
    "given-differs", kPart, kError,
    "before the first node ran: an output of a node that runs no function"};
inline constexpr FindingKind kReadDiffers = {
    "read-differs", kPart, kError,
    "an input before the node ran: written to since it was made"};
// Also has `differing` and `elements`, which count those that differed in the
// first run that did and all of them, and `largest`, the largest |a - b|: 0 if
// they are not numbers, or NaN.
inline constexpr FindingKind kMadeDiffers = {
    "made-differs", kPart, kError,
    "an output after the node ran, which had read the same"};
inline constexpr FindingKind kLeftDiffers = {
    "left-differs", kPart, kError,
    "an input after the node ran, which had read and made the same"};
inline constexpr FindingKind kEndDiffers = {
    "end-differs", kPart, kError,
    "an output at the end of the run: written to since it was made"};

inline constexpr FindingKind kAll[] = {kGivenDiffers, kReadDiffers,
                                       kMadeDiffers, kLeftDiffers, kEndDiffers};
}  // namespace sweep_kinds

struct SweepReport {
  size_t runs = 0;
  // They are of sweep_kinds, and float_kinds::kLeftChanged, in the order of the
  // graph, so that the first is where the difference begins; nodes that only
  // pass a difference on are not listed.
  std::vector<Finding> findings;
  size_t inherited = 0;  // Nodes that only passed a difference on.
};

// Runs the network with varying thread counts, buffer addresses and previous
// contents of the buffers, and compares every entry with the first run's, of
// which it keeps a copy: it takes as much memory as all entries together.
// Entries are checked again where they are read, and outputs at the end.
// Restores the thread count. An error of a node's function ends it.
//
// `make` must pass on DebugOptions::allocate. Thread counts are those of our
// pool: OpenMP's are not set. Fails with kInvalidArgument for counts below 1.
absl::StatusOr<SweepReport> Sweep(const ExecutorMaker& make,
                                  const SweepOptions& options);

}  // namespace nodewise
