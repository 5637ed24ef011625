#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "nodewise/runtime/graph_executor.h"

namespace nodewise {

// Host copies of the outputs under names that are different from each other:
// one entry may be an output twice.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor);

// Numbers what an earlier tensor's name is: "y", "y_2", "y_3".
void MakeNamesUnique(std::vector<NamedTensor>* tensors);

// What each looks like.
void ShowOutputs(const std::vector<NamedTensor>& outputs, Outcome* outcome);

// What can be known to be wrong with --output before the run: afterwards it
// would cost the run.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs);

}  // namespace nodewise
