#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"

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

// A tensor that was not always the same where a difference begins.
struct SweepFinding {
  // When the tensor was found to differ.
  enum class Moment {
    kGiven,  // Before the first node ran: an output of a node that runs no
             // function.
    kRead,   // An input before the node ran: written to since it was made.
    kMade,   // An output after the node ran, which had read the same.
    kLeft,   // An input after the node ran, which had read and made the same.
    kEnd,    // An output at the end of the run: as for kRead.
  };
  NodeId node{};
  Moment moment = Moment::kMade;
  uint32_t slot = 0;  // Which of the node's inputs or outputs.
  // What differed between two runs with different results: "1 and 2 threads",
  // "two addresses of the buffers", "two runs of the same" ...
  std::string between;
  // For kMade: how many elements differed in the first run that did, and the
  // largest |a - b| among them; 0 if they are not numbers, or NaN.
  uint64_t differing = 0;
  double largest = 0;
  // "node 3 (sum): output 0 differs between 1 and 2 threads in 4 of 64
  // elements, by up to 0.5".
  std::string text;
};

struct SweepReport {
  size_t runs = 0;
  // In the order of the graph, so that the first is where it begins; nodes that
  // only pass a difference on are not listed.
  std::vector<SweepFinding> findings;
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
