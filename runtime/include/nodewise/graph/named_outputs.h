#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Returns host copies of the outputs, which later runs do not change, under
// names that all differ, even where one entry is an output twice.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor);

// Appends a number to each name that an earlier tensor has: "y", "y_2", "y_3".
void MakeNamesUnique(std::vector<NamedTensor>* tensors);

}  // namespace nodewise
