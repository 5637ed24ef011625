#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "nodewise/runtime/ndarray.h"

namespace nodewise {

// What each looks like.
void ShowOutputs(const std::vector<NamedTensor>& outputs, Outcome* outcome);

// What can be known to be wrong with --output before the run: afterwards it
// would cost the run.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs);

}  // namespace nodewise
