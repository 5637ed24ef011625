#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Debug executors of a target, for tools that are made for them (profiling,
// recording, checks of memory), and whether watching changed the outputs.
// Only in builds with USE_PROFILER. `inputs` come from an InputCollector of the
// target's inputs.

// Makes an executor that is ready to run. `options.devices` are the target's.
absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebugExecutor(
    const GraphTarget& target, absl::Span<const RunInput> inputs,
    DebugExecutor::DebugOptions options);

// Returns a function that makes such executors, which do not record. What it
// fails with is also put into `status`, if that is given: a caller can tell an
// executor that could not be made from a run that failed. All must outlive it.
ExecutorMaker MakerOfDebugExecutors(const GraphTarget& target,
                                    absl::Span<const RunInput> inputs,
                                    absl::Status* status = nullptr);

// Compare outputs with those of a plain executor of their own, in this process
// or in a child, for a library that has shown faults or may. If the plain run
// fails, the result says so: it is not "the same". Findings that were made
// before stay valid then.
OutputCheck CheckAgainstPlain(const GraphTarget& target,
                              absl::Span<const RunInput> inputs,
                              const GraphExecutor& debugged);
OutputCheck CheckAgainstPlainChild(const GraphTarget& target,
                                   absl::Span<const RunInput> inputs,
                                   absl::Span<const NamedTensor> outputs);

class NodeObserver;

// Where a run's tensors lie.
enum class TensorAddresses {
  kUsual,
  // At odd multiples of what TVM promises its kernels (64 bytes). Ours are
  // aligned better, which a kernel may have come to need.
  kBarelyAligned,
};

// Makes the runner of compiled graphs that can be looked into. Only in builds
// with USE_PROFILER. `watcher` sees all runs, each node before a sink does; it
// may be null, and must outlive the runner.
absl::StatusOr<std::unique_ptr<Runner>> MakeDebugRunner(
    std::shared_ptr<const GraphTarget> target, NodeObserver* watcher = nullptr,
    TensorAddresses addresses = TensorAddresses::kUsual);

}  // namespace nodewise
