#include "nodewise/tensors/packed_elements.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"

namespace nodewise {
namespace {

// Returns an element as the byte it has in memory.
uint8_t Widened(DLDataType dtype, unsigned bits) {
  const unsigned sign = 1U << (dtype.bits - 1);
  const bool is_negative = dtype.code == kDLInt && (bits & sign) != 0;
  return static_cast<uint8_t>(is_negative ? bits | ~(2 * sign - 1) : bits);
}

}  // namespace

bool IsPackedByOnnx(DLDataType dtype) {
  return (dtype.bits == 2 || dtype.bits == 4) && dtype.lanes == 1;
}

size_t OnnxBytes(DLDataType dtype, int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  if (!IsPackedByOnnx(dtype)) return count * ElementBytes(dtype);
  const size_t in_byte = 8 / dtype.bits;
  return count / in_byte + (count % in_byte != 0 ? 1 : 0);
}

void UnpackElements(absl::Span<const uint8_t> bytes, const NDArray& to) {
  const DLDataType dtype = to.dtype();
  auto* const elements = to.As<uint8_t>();
  if (to.bytes() == 0) return;
  if (!IsPackedByOnnx(dtype)) {
    std::memcpy(elements, bytes.data(), to.bytes());
    return;
  }
  const size_t in_byte = 8 / dtype.bits;
  const unsigned mask = (1U << dtype.bits) - 1;
  for (size_t i = 0; i < to.bytes(); ++i) {
    const unsigned shift = i % in_byte * dtype.bits;
    elements[i] = Widened(dtype, bytes[i / in_byte] >> shift & mask);
  }
}

absl::StatusOr<std::string> OnnxDataOf(const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  const auto* const elements = tensor.As<const uint8_t>();
  if (!IsPackedByOnnx(dtype)) {
    return std::string(tensor.As<const char>(), tensor.bytes());
  }
  const size_t count = tensor.bytes();
  const size_t in_byte = 8 / dtype.bits;
  const unsigned mask = (1U << dtype.bits) - 1;
  std::string packed(OnnxBytes(dtype, static_cast<int64_t>(count)), '\0');
  for (size_t i = 0; i < count; ++i) {
    const unsigned bits = elements[i] & mask;
    const bool is_integer = dtype.code == kDLInt || dtype.code == kDLUInt;
    if (is_integer && Widened(dtype, bits) != elements[i]) {
      return absl::InvalidArgumentError(fmt::format(
          "element {} is {}, which {} does not hold", i,
          dtype.code == kDLInt ? static_cast<int8_t>(elements[i]) : elements[i],
          ToString(dtype)));
    }
    packed[i / in_byte] =
        static_cast<char>(static_cast<uint8_t>(packed[i / in_byte]) |
                          bits << i % in_byte * dtype.bits);
  }
  return packed;
}

}  // namespace nodewise
