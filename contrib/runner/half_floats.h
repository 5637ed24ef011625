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

// Memory in which the tensors of a call are float32 while it runs; made when it
// is first needed.
class WideTensors {
 public:
  // Returns the tensors of a call: those of a half type converted, others as
  // they are. What it hands out is overwritten by the next call.
  absl::StatusOr<std::vector<NDArray>> Inputs(absl::Span<const NDArray> given);
  // Returns memory for the output, which may be of any type.
  absl::StatusOr<NDArray> Output(const NDArray& output);

  static absl::StatusOr<NDArray> Copy(const NDArray& half);

 private:
  std::vector<NDArray> inputs_;
  NDArray output_;
};

}  // namespace nodewise
