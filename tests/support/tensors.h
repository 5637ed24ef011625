#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The type that T has in C; other types are given by name.
template <typename T>
DLDataType TypeOf() {
  const auto bits = static_cast<uint8_t>(8 * sizeof(T));
  if (std::is_floating_point_v<T>) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(std::is_signed_v<T> ? kDLInt : kDLUInt), bits,
          1};
}

// A host tensor with these values. Ends the test if they do not fit.
template <typename T>
NDArray MakeTensor(const std::vector<int64_t>& shape,
                   const std::vector<T>& values,
                   DLDataType dtype = TypeOf<T>()) {
  NDArray tensor = NDArray::Empty(shape, dtype, kCpu).value();
  const size_t bytes = values.size() * sizeof(T);
  if (!CopyFromBytes(values.data(), bytes, *tensor).ok()) std::abort();
  return tensor;
}

// float32 (n,).
inline NDArray Floats(const std::vector<float>& values) {
  return MakeTensor<float>({static_cast<int64_t>(values.size())}, values);
}

// The elements of a tensor in host memory, row by row.
template <typename T = float>
std::vector<T> ValuesOf(const DLTensor& tensor) {
  const size_t bytes = TensorBytes(tensor).value();
  std::vector<T> values(bytes / sizeof(T));
  if (!CopyToBytes(tensor, values.data(), bytes).ok()) std::abort();
  return values;
}
template <typename T = float>
std::vector<T> ValuesOf(const NDArray& tensor) {
  return ValuesOf<T>(*tensor);
}

// Returns a copy that lies `offset` bytes after the start of an aligned block
// of memory.
inline NDArray CopyAtOffset(const NDArray& tensor, size_t offset) {
  auto block = NDArray::Empty({static_cast<int64_t>(tensor.bytes() + offset)},
                              {kDLUInt, 8, 1}, kCpu)
                   .value();
  DLTensor moved = *tensor;
  moved.data = static_cast<char*>(block.data()) + offset;
  std::memcpy(moved.data, tensor.data(), tensor.bytes());
  return NDArray::Borrow(moved, std::make_shared<NDArray>(block));
}

}  // namespace nodewise
