#pragma once

// Calls a global function by its name.

#include "absl/status/statusor.h"
#include "nodewise/func/registry.h"

namespace nodewise {

template <typename... Args>
absl::StatusOr<Value> Call(const char* name, const Args&... args) {
  return FindFunction(name).Call(args...);
}

}  // namespace nodewise
