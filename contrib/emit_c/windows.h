#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace nodewise::emit_c {

// Returns how many elements of a side so many windows reach over; refuses more
// than any memory holds.
absl::StatusOr<int64_t> ReachOf(int64_t places, int64_t stride, int64_t taps,
                                int64_t dilation);

}  // namespace nodewise::emit_c
