#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// ONNX's bytes hold two elements of 4 bits or four of 2, the first one in the
// lowest bits; in memory each has a byte. Any thread may call.

// Returns how many bytes ONNX stores `elements` of a type in: packed ones if it
// has 2 or 4 bits.
size_t OnnxBytes(DLDataType dtype, int64_t elements);
// Returns whether that packs them.
bool IsPackedByOnnx(DLDataType dtype);

// Copies ONNX's bytes into a tensor. Bits behind the last element mean nothing.
// REQUIRES: there are OnnxBytes() of them, and `to` is compact.
void UnpackElements(absl::Span<const uint8_t> bytes, const NDArray& to);

// Returns the bytes that ONNX stores a tensor in. Fails with kInvalidArgument
// for an integer that does not fit the bits of its type.
// REQUIRES: the tensor is compact and in the host's memory.
absl::StatusOr<std::string> OnnxDataOf(const NDArray& tensor);

}  // namespace nodewise
