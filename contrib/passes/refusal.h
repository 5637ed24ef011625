#pragma once

#include <string>

#include "absl/status/status.h"

namespace nodewise {

// Why a pass leaves an operation alone, on its way to the report.
inline absl::Status Refuse(const std::string& reason) {
  return absl::FailedPreconditionError(reason);
}

}  // namespace nodewise
