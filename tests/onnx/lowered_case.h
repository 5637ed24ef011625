#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/built_in_functions.h"

namespace nodewise {

// Runs a network as the graph that it is lowered to, with the sizes that these
// inputs have. Where that leaves sizes open, small inputs that may decide them
// are frozen: first those of integers, then all but the first input. Fails with
// kUnimplemented if some sizes still depend on data.
absl::StatusOr<std::vector<NDArray>> RunAsGraph(Network network,
                                                std::vector<NDArray> inputs,
                                                Backend backend);

}  // namespace nodewise
