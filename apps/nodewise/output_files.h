#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nodewise/report/report.h"

namespace nodewise {

// The files that commands write where the user says.

// Checks before the run, which would otherwise be wasted, whether a file can be
// written, as far as that can be known. An empty path means no file.
absl::Status CheckFilePath(const std::string& path);
// Checks the file of --output, whose extension decides its content.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs);
// Puts a file in the place of one that may be there, once it is complete.
absl::Status WriteWholeFile(const std::string& path, std::string_view content);
// Does so for a file that the user has asked for, and reports that under `key`.
absl::Status WriteAskedFile(const std::string& path, std::string_view content,
                            std::string_view key, Report* report);

}  // namespace nodewise
