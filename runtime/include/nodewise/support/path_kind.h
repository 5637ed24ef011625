#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace nodewise {

enum class PathKind { kNothing, kFile, kFolder, kOther };

// Returns what lies at a path, links followed. A place that cannot be looked at
// is an error, and not one where nothing is: a file that is missed for a fault
// of the disk would make another result.
absl::StatusOr<PathKind> KindOfPath(const std::string& path);

// Returns how many bytes a file has.
absl::StatusOr<uint64_t> SizeOfFile(const std::string& path);

}  // namespace nodewise
