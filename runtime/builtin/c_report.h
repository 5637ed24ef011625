#pragma once

#include <utility>

#include "absl/status/status.h"
#include "nodewise/runtime/last_error.h"

namespace nodewise {

// What a C function returns for a status: 0, or -1 with the error kept for
// TVMGetLastError.
inline int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

}  // namespace nodewise
