#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/regions/built_in_functions.h"

namespace nodewise {

// Lowers a network with the sizes that these inputs have. Where that leaves
// sizes open, small inputs that may decide them are frozen and stop being
// inputs: first those of integers, then all but the first input. Fails with
// kUnimplemented if some sizes still depend on data.
absl::StatusOr<Lowered> LowerFor(Network* network,
                                 std::vector<NDArray>* inputs);

// Runs a graph with the functions of a library.
absl::StatusOr<std::vector<NDArray>> RunLowered(
    const Graph& graph, Ref<Library> library,
    const std::vector<NamedTensor>& params, const std::vector<NDArray>& inputs);

// Runs a network as the graph that it is lowered to, with the kernels that this
// build has.
absl::StatusOr<std::vector<NDArray>> RunAsGraph(Network network,
                                                std::vector<NDArray> inputs,
                                                Backend backend);

}  // namespace nodewise
