#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// Type codes beyond those of DLPack 0.6, numbered as in DLPack 1. TVM 0.13 to
// 0.20 numbered the 8-bit floats 6 and 7; since then 6 is bool: see
// ClassicType().
inline constexpr uint8_t kDTypeBool = 6;
inline constexpr uint8_t kDTypeE4M3 = 10;
inline constexpr uint8_t kDTypeE4M3Fnuz = 11;
inline constexpr uint8_t kDTypeE5M2 = 12;
inline constexpr uint8_t kDTypeE5M2Fnuz = 13;
inline constexpr uint8_t kDTypeE8M0 = 14;
inline constexpr uint8_t kDTypeE2M1 = 17;

inline bool operator==(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kBool{kDLUInt, 1, 1};
// Bool as TVM 0.21 and later encode it in libraries and in files: "bool8". A
// graph JSON's "bool" is kBool; the elements are the same.
inline constexpr DLDataType kFfiBool{kDTypeBool, 8, 1};

// Return the type in the numbers that libraries and files of TVM 0.20 and
// earlier use, and in those of 0.21 and later. They differ in bool and the
// 8-bit floats.
DLDataType ClassicType(DLDataType dtype);
DLDataType FfiType(DLDataType dtype);

// Returns whether the types are equal or two numbers of one type. The number
// that was the first 8-bit float's and is now bool's counts as both.
bool IsSameType(DLDataType a, DLDataType b);

// Reads TVM's spelling, old or new: "float32", "int8", "bool", "bfloat16",
// "float32x4", "e4m3_float8" or "float8_e4m3fn", "handle". Fails with
// kInvalidArgument unless the whole text is a type.
absl::StatusOr<DLDataType> ParseDType(std::string_view text);

// Returns the old spelling; codes without a name print as "custom[N]BITS".
std::string ToString(DLDataType dtype);

// Returns the bytes of one element with all its lanes, as TVM stores it: whole
// bytes, so bool and types of 2 and 4 bits take one each. 0 for "handle"
// without bits.
inline size_t ElementBytes(DLDataType dtype) {
  return (size_t{dtype.bits} * dtype.lanes + 7) / 8;
}

// Returns OK for types that a tensor may have: 1 or more lanes, and a width
// that TVM accepts for the code, or ONNX does.
absl::Status CheckDType(DLDataType dtype);

// Returns how many elements a shape has. Fails with kInvalidArgument for a
// negative dimension or a product that does not fit 63 bits.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape);

// Returns ElementBytes times elements, checked in the same way.
absl::StatusOr<size_t> TensorBytes(absl::Span<const int64_t> shape,
                                   DLDataType dtype);

// Returns "(1, 64)", with Python's comma in "(3,)".
std::string ShapeToString(absl::Span<const int64_t> shape);

}  // namespace nodewise
