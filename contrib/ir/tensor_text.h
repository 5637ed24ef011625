#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// "int64[2] [1, -2]"; floats so that every bit comes back. A tensor with more
// than `max_elements` of them (0: whatever it has) is a hash instead.
std::string TensorText(const NDArray& tensor, size_t max_elements);
// As the Take functions of type_text.h.
absl::StatusOr<NDArray> TakeTensor(std::string_view* text);

std::string FloatText(float number);
absl::StatusOr<float> TakeFloat(std::string_view* text);

}  // namespace nodewise
