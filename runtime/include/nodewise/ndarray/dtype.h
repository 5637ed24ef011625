#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// Type codes beyond those of DLPack 0.6, in the numbers of DLPack 1. TVM 0.13
// to 0.20 gave the 8-bit floats 6 and 7, and 6 is bool since: see
// ClassicType().
inline constexpr uint8_t kDTypeBool = 6;
inline constexpr uint8_t kDTypeE4M3 = 10;
inline constexpr uint8_t kDTypeE5M2 = 12;

inline bool operator==(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kBool{kDLUInt, 1, 1};
// Bool as TVM 0.21 and later have it, in libraries and in files: "bool8". A
// graph JSON's "bool" is kBool; the elements are the same.
inline constexpr DLDataType kFfiBool{kDTypeBool, 8, 1};

// The type by the numbers that libraries and files of TVM 0.20 and earlier use,
// and by those of 0.21 and later. They differ in bool and the 8-bit floats.
DLDataType ClassicType(DLDataType dtype);
DLDataType FfiType(DLDataType dtype);

// True for equal types, and for two numbers of one type. The number that was
// the first 8-bit float's and is bool's now passes for both.
bool IsSameType(DLDataType a, DLDataType b);

// Reads TVM's spelling, old or new: "float32", "int8", "bool", "bfloat16",
// "float32x4", "e4m3_float8" or "float8_e4m3fn", "handle". The whole text must
// be used. kInvalidArgument.
absl::StatusOr<DLDataType> ParseDType(std::string_view text);

// The old spelling back; codes without a name print as "custom[N]BITS".
std::string ToString(DLDataType dtype);

// Bytes of one element as TVM stores it: whole bytes, so bool and the 4-bit
// types take one each; all lanes included. 0 for "handle" without bits.
size_t ElementBytes(DLDataType dtype);

// OK for types a tensor may have: 1 or more lanes, and a width that TVM
// accepts for the code.
absl::Status CheckDType(DLDataType dtype);

// Elements of a shape; kInvalidArgument for a negative dimension or a product
// that does not fit 63 bits.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape);

// ElementBytes times elements, checked in the same way.
absl::StatusOr<size_t> TensorBytes(absl::Span<const int64_t> shape,
                                   DLDataType dtype);

// "(1, 64)", with Python's comma in "(3,)".
std::string ShapeToString(absl::Span<const int64_t> shape);

}  // namespace nodewise
