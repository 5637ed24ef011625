#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/node_failure.h"

namespace nodewise {

// Runs the network once in a child, with guarded memory around every tensor
// (Sanitize()), and returns the nodes that wrote to memory that is not their
// own, in the order of the run, each once. Nothing that they spoil is spoiled
// in this process. Returns none where the child does not come to an end: that
// has other causes, which other runs find. Fails if there can be no child, and
// as MatchInputs(). REQUIRES: all devices of the target are CPUs.
absl::StatusOr<std::vector<NodeFailure>> FindStrayWrites(
    const GraphTarget& target, absl::Span<const NamedTensor> inputs,
    int64_t limit_ms);

}  // namespace nodewise
