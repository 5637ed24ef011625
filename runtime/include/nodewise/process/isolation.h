#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Why a node that ran in a process of its own came to no result.
struct NodeFailure {
  enum class Kind { kError, kSignal, kTimeout, kExit };
  Kind kind;
  NodeId node{};
  int signal = 0;        // kSignal.
  uint64_t address = 0;  // Where the fault was, if the signal has one.
  int exit_status = 0;   // kExit: the function ended the process.
  // "node 3 (conv): crashed with SIGSEGV at address 0x10".
  std::string text;
};

inline constexpr int64_t kMostTimeLimitMs = 86'400'000;  // A day.

struct IsolationOptions {
  // For one node, or one whole run: 1 to kMostTimeLimitMs, or it is
  // kInvalidArgument.
  int64_t time_limit_ms = 10'000;
};

struct IsolationReport {
  std::vector<NodeFailure> failures;  // In the order of the run.
  // Nodes whose inputs come, near or far, from a node that failed, and not from
  // a patch: they ran on what lay in its storage before.
  std::vector<NodeId> tainted;
  size_t nodes = 0;
};

// Runs every node of the executor from its start in a forked child, which hands
// the outputs back in shared memory; the parent runs none of the library's
// code. A node that crashes, hangs, exits or returns an error is noted, its
// outputs keep the bytes that lay there, and the rest runs on.
//
// Parallel kernels run: the child makes a thread of its own, on which our pool
// and OpenMP begin afresh.
absl::StatusOr<IsolationReport> RunIsolated(DebugExecutor* executor,
                                            const IsolationOptions& options);

// Runs a whole executor in one forked child and takes its outputs over, so that
// GetOutput() gives them: a run that crashes is an error, and nothing more.
absl::Status RunInChild(GraphExecutor* executor,
                        const IsolationOptions& options);

}  // namespace nodewise
