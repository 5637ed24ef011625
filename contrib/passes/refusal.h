#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace nodewise {

// Why a pass leaves an operation alone, on its way to the report.
inline absl::Status Refuse(std::string reason) {
  return absl::FailedPreconditionError(std::move(reason));
}

}  // namespace nodewise
