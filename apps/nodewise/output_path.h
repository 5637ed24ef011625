#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace nodewise {

// Checks before the run, which would otherwise be wasted, whether a file can be
// written, as far as that can be known. An empty path means no file.
absl::Status CheckFilePath(const std::string& path);
// Checks the file of --output, whose extension decides its content.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs);

}  // namespace nodewise
