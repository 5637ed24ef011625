#pragma once

// What oneDNN throws, as a status.

#include <utility>

#include "absl/status/statusor.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace nodewise::onednn {

absl::Status StatusOf(const dnnl::error& error);

// Returns what f() returns, or the error that it throws.
template <typename F>
auto Caught(F f) -> absl::StatusOr<decltype(f())> {
  try {
    return f();
  } catch (const dnnl::error& error) {
    return StatusOf(error);
  }
}
template <typename F>
absl::Status CaughtStatus(F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return StatusOf(error);
  }
}

}  // namespace nodewise::onednn
