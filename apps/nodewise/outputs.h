#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// What each looks like.
void ShowOutputs(const std::vector<NamedTensor>& outputs, Outcome* outcome);

// What can be known to be wrong with a file to write before the run: afterwards
// the run would be in vain. An empty path is that of no file.
absl::Status CheckFilePath(const std::string& path);
// The same for --output, whose file says by its name what goes in.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs);

}  // namespace nodewise
