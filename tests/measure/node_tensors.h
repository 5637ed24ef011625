#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"
#include "tests/measure/subject.h"

namespace nodewise {

// What a node read and made in a run, by input and by output.
struct NodeTensors {
  std::vector<NDArray> inputs, outputs;
};

// Runs the target in this process and returns host copies.
absl::StatusOr<NodeTensors> TensorsOf(const SubjectTarget& target, NodeId node,
                                      const std::vector<NamedTensor>& inputs);

// Runs the target up to the node with other tensors in the place of what that
// reads, by input, and returns what it makes of them. What it reads twice must
// be the same tensor.
absl::StatusOr<std::vector<NDArray>> OutputsOn(
    const SubjectTarget& target, NodeId node,
    const std::vector<NDArray>& node_inputs,
    const std::vector<NamedTensor>& inputs);

// Returns what a node says that it computes.
absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId node,
                                    const NodeTensors& tensors);

}  // namespace nodewise
