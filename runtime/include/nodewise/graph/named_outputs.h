#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Host copies of the outputs, which later runs do not change, under names that
// are different from each other: one entry may be an output twice.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor);

// Numbers what an earlier tensor's name is: "y", "y_2", "y_3".
void MakeNamesUnique(std::vector<NamedTensor>* tensors);

}  // namespace nodewise
