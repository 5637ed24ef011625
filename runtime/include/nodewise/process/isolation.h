#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/finding.h"

namespace nodewise {

// Why a node that ran in a process of its own gave no result: the kinds of
// findings. Their place is the node.
namespace isolation_kinds {
inline constexpr std::string_view kPart = "isolation";
inline constexpr auto kError = Severity::kError;

inline constexpr FindingKind kNodeError = {
    "node-error", kPart, kError, "the node's function returned an error"};
// Has the numbers `signal` and, if the signal has one, `address`.
inline constexpr FindingKind kCrash = {"crash", kPart, kError,
                                       "the node's function caused a signal"};
// Has the number `time_limit_ms`.
inline constexpr FindingKind kTimeout = {
    "timeout", kPart, kError, "the node's function did not return in time"};
// Has the number `exit_status`, unless something else has collected it.
inline constexpr FindingKind kExit = {"exit", kPart, kError,
                                      "the node's function ended the process"};

inline constexpr FindingKind kAll[] = {kNodeError, kCrash, kTimeout, kExit};
}  // namespace isolation_kinds

inline constexpr int64_t kMostTimeLimitMs = 86'400'000;  // A day.

struct IsolationOptions {
  // The limit for one node, or one whole run. Outside of 1 to kMostTimeLimitMs
  // it is kInvalidArgument.
  int64_t time_limit_ms = 10'000;
};

struct IsolationReport {
  // They are of isolation_kinds, and float_kinds::kLeftChanged, in the order of
  // the run.
  std::vector<Finding> findings;
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
