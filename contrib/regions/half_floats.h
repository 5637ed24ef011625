#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Conversions around kernels that compute in float32: below AVX-512, oneDNN has
// none for float16 and bfloat16.

// Whether it is one of these two.
bool IsHalfFloat(DLDataType dtype);

// Both REQUIRE: compact tensors in host memory, of as many elements; `half` is
// of float16 or bfloat16, and `wide` of float32. Rounds to nearest even.
void Widen(const NDArray& half, const NDArray& wide);
void Narrow(const NDArray& wide, const NDArray& half);

// Returns whether there is a NaN in it. REQUIRES: as above, of `half`.
bool HasNaN(const NDArray& half);

// Return the tensors of a call in float32: those of a half type converted,
// others as they are; and memory for its output. It is the thread's own, and
// the next call on the thread overwrites it.
absl::StatusOr<std::vector<NDArray>> WideInputs(
    absl::Span<const NDArray> given);
absl::StatusOr<NDArray> WideOutput(const NDArray& output);

// Returns a copy that lasts.
absl::StatusOr<NDArray> WideCopy(const NDArray& half);

}  // namespace nodewise
