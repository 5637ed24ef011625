#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Returns "int64[2] [1, -2]"; floats are written so that every bit is read
// back. A tensor with more than `max_elements` elements (0: no limit) is
// written as a hash instead.
std::string TensorText(const NDArray& tensor, size_t max_elements);
// Reads a tensor; see the Take functions of type_text.h.
absl::StatusOr<NDArray> TakeTensor(std::string_view* text);

std::string FloatText(float number);
absl::StatusOr<float> TakeFloat(std::string_view* text);

}  // namespace nodewise
