#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Why a node that ran in a process of its own gave no result.
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
  // The limit for one node, or one whole run. Outside of 1 to kMostTimeLimitMs
  // it is kInvalidArgument.
  int64_t time_limit_ms = 10'000;
};

struct IsolationReport {
  std::vector<NodeFailure> failures;  // In the order of the run.
  // Nodes whose inputs come, directly or indirectly, from a node that failed,
  // and not from a patch: they ran on the bytes that its storage held before.
  std::vector<NodeId> tainted;
  size_t nodes = 0;
};

// Runs the executor from its first node, each node in a forked child that hands
// the outputs back in shared memory; the parent runs none of the library's
// code. A node that crashes, hangs, exits or returns an error is noted, its
// outputs keep the bytes that they had, and the other nodes run.
//
// Parallel kernels work: the child makes a thread of its own, on which our pool
// and OpenMP start afresh.
absl::StatusOr<IsolationReport> RunIsolated(DebugExecutor* executor,
                                            const IsolationOptions& options);

// Runs a whole executor in one forked child and takes its outputs over, so that
// GetOutput() gives them. A run that crashes is only an error.
absl::Status RunInChild(GraphExecutor* executor,
                        const IsolationOptions& options);

}  // namespace nodewise
