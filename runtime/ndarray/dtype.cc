#include "nodewise/ndarray/dtype.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

struct CodeName {
  std::string_view name;
  uint8_t code;
  uint8_t default_bits;
  bool says_bits = false;  // Its name ends with them already.
};

// Longer names come before names that they begin with; of two names for one
// type, the last is the one to write.
constexpr CodeName kCodes[] = {
    {"float8_e4m3fnuz", kDTypeE4M3Fnuz, 8, true},
    {"float8_e4m3fn", kDTypeE4M3, 8, true},
    {"float8_e5m2fnuz", kDTypeE5M2Fnuz, 8, true},
    {"float8_e5m2", kDTypeE5M2, 8, true},
    {"float8_e8m0fnu", kDTypeE8M0, 8, true},
    {"float4_e2m1fn", kDTypeE2M1, 4, true},
    {"e4m3_float", kDTypeE4M3, 8},
    {"e5m2_float", kDTypeE5M2, 8},
    {"bfloat", kDLBfloat, 16},
    {"float", kDLFloat, 32},
    {"uint", kDLUInt, 32},
    {"int", kDLInt, 32},
    {"handle", kDLOpaqueHandle, 64},
    {"complex", kDLComplex, 64},
};

// Asked while compiling, so that an element type cannot be added without a
// spelling.
constexpr bool HasName(DLDataType dtype) {
  if (dtype.code == kDTypeBool) return true;  // Bool is not a row above.
  return std::ranges::find(kCodes, dtype.code, &CodeName::code) !=
         std::end(kCodes);
}

template <typename... E>
constexpr bool AllHaveNames(ElementList<E...>) {
  return (HasName(E::kDType) && ...);
}
static_assert(AllHaveNames(ElementTypes{}), "an element type has no name");

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool TakeNumber(std::string_view* text, uint32_t limit, uint32_t* number) {
  const char* const begin = text->data();
  const auto [end, error] =
      std::from_chars(begin, begin + text->size(), *number);
  if (error != std::errc() || *number > limit) return false;
  text->remove_prefix(static_cast<size_t>(end - begin));
  return true;
}

absl::Status UnknownType(std::string_view text) {
  return InvalidArgument(
      "unknown type \"{}\", expected one such as float32, int8, bool", text);
}

}  // namespace

// An empty text and "void" are a handle without bits or lanes, which is how TVM
// writes the type of a function that returns nothing. Otherwise a text is a
// name, perhaps bits, and perhaps "x" and lanes.
absl::StatusOr<DLDataType> ParseDType(std::string_view text) {
  if (text.empty() || text == "void") return DLDataType{kDLOpaqueHandle, 0, 0};
  std::string_view rest = text;
  DLDataType dtype{0, 0, 1};
  // The longer name first, since the other begins it; neither takes bits.
  if (rest.starts_with("bool8")) {
    dtype = kFfiBool;
    rest.remove_prefix(5);
  } else if (rest.starts_with("bool")) {
    dtype = kBool;
    rest.remove_prefix(4);
  } else {
    const auto* const code = std::find_if(
        std::begin(kCodes), std::end(kCodes),
        [&](const CodeName& row) { return rest.starts_with(row.name); });
    if (code == std::end(kCodes)) return UnknownType(text);
    rest.remove_prefix(code->name.size());
    uint32_t bits = code->default_bits;
    if (!rest.empty() && IsDigit(rest[0]) && !TakeNumber(&rest, 255, &bits)) {
      return UnknownType(text);
    }
    dtype.code = code->code;
    dtype.bits = static_cast<uint8_t>(bits);
  }
  uint32_t lanes = 1;
  if (!rest.empty() && rest[0] == 'x') {
    rest.remove_prefix(1);
    if (!TakeNumber(&rest, 65535, &lanes)) return UnknownType(text);
  }
  if (!rest.empty()) return UnknownType(text);
  dtype.lanes = static_cast<uint16_t>(lanes);
  return dtype;
}

// Never fails: messages about a type that is out of place go through here, and
// such a type may have any code.
std::string ToString(DLDataType dtype) {
  if (dtype.bits == 0 && dtype.lanes == 0) return "void";
  std::string text;
  if (dtype.code == kDLUInt && dtype.bits == 1) {
    text = "bool";
  } else if (dtype.code == kDTypeBool && dtype.bits == 8) {
    text = "bool8";
  } else {
    text = fmt::format("custom[{}]", dtype.code);
    bool says_bits = false;
    for (const CodeName& row : kCodes) {
      if (row.code != dtype.code) continue;
      text = std::string(row.name);
      // The last name is written.
      says_bits = row.code == kDLOpaqueHandle
                      ? dtype.bits == 64
                      : row.says_bits && row.default_bits == dtype.bits;
    }
    if (!says_bits) text += std::to_string(dtype.bits);
  }
  if (dtype.lanes != 1) text += "x" + std::to_string(dtype.lanes);
  return text;
}

// The numbers 6 and 7 are those of TVM 0.13 to 0.20.
DLDataType ClassicType(DLDataType dtype) {
  if (dtype == kFfiBool) return kBool;
  if (dtype.code == kDTypeE4M3 && dtype.bits == 8) dtype.code = 6;
  if (dtype.code == kDTypeE5M2 && dtype.bits == 8) dtype.code = 7;
  return dtype;
}

DLDataType FfiType(DLDataType dtype) {
  return dtype == kBool ? kFfiBool : dtype;
}

// Compares in both numberings, because a file and a library of one network may
// be of different releases.
bool IsSameType(DLDataType a, DLDataType b) {
  return FfiType(a) == FfiType(b) || ClassicType(a) == b || a == ClassicType(b);
}

// Tensors are stepped through by the width, so a type without one must not get
// through.
absl::Status CheckDType(DLDataType dtype) {
  const int bits = dtype.bits;
  const bool power_of_two = bits > 0 && (bits & (bits - 1)) == 0;
  bool fine = dtype.lanes >= 1;
  switch (dtype.code) {
    case kDLInt:
    case kDLUInt:
      // TVM has no integers of 2 bits; ONNX has.
      fine = fine && power_of_two && (bits <= 4 || bits % 8 == 0);
      break;
    case kDTypeE2M1:
      fine = fine && bits == 4;
      break;
    default:
      fine = fine && bits > 0 && bits % 8 == 0;
  }
  if (fine) return absl::OkStatus();
  return InvalidArgument(
      "type {} (code {}, {} bits, {} lanes) cannot be stored in a tensor",
      ToString(dtype), dtype.code, bits, dtype.lanes);
}

// A side of 0 makes the tensor empty no matter what the others are, so the
// product is not even tried then; a negative one is an error all the same.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> shape) {
  int64_t elements = 1;
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return InvalidArgument("shape {} has a negative dimension",
                             ShapeToString(shape));
    }
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return InvalidArgument("shape {} has more elements than memory can hold",
                             ShapeToString(shape));
    }
  }
  return elements;
}

// Signed, like the number of elements: a size that needs 64 bits is refused
// with those that need more.
absl::StatusOr<size_t> TensorBytes(absl::Span<const int64_t> shape,
                                   DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements, NumElements(shape));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(
          elements, static_cast<int64_t>(ElementBytes(dtype)), &bytes)) {
    return InvalidArgument(
        "shape {} of {} needs more bytes than memory can hold",
        ShapeToString(shape), ToString(dtype));
  }
  return static_cast<size_t>(bytes);
}

std::string ShapeToString(absl::Span<const int64_t> shape) {
  return fmt::format("({}{})", absl::StrJoin(shape, ", "),
                     shape.size() == 1 ? "," : "");
}

}  // namespace nodewise
