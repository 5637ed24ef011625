#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// Type codes beyond those of DLPack 0.6, as TVM 0.13 to 0.19 numbers them.
inline constexpr uint8_t kDTypeE4M3 = 6;
inline constexpr uint8_t kDTypeE5M2 = 7;

inline bool operator==(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline constexpr DLDataType kFloat32{kDLFloat, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kBool{kDLUInt, 1, 1};
// Bool as TVM 0.21 and later have it, in libraries and in files. Nothing else
// here uses it: a graph's bools are kBool.
inline constexpr DLDataType kFfiBool{6, 8, 1};

// True for equal types and for the two bools, which have the same elements.
inline bool IsSameType(DLDataType a, DLDataType b) {
  return a == b || (a == kBool && b == kFfiBool) ||
         (a == kFfiBool && b == kBool);
}

// Reads TVM's spelling: "float32", "int8", "bool", "bfloat16", "float32x4",
// "e4m3_float8", "handle". The whole text must be used. kInvalidArgument.
absl::StatusOr<DLDataType> ParseDType(std::string_view text);

// The same spelling back; codes without a name print as "custom[N]BITS".
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
