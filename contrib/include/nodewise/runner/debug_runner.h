#pragma once

#include <memory>

#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

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
