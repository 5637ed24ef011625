#include "nodewise/random/random.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr int64_t kLeastInt = -10;
constexpr int64_t kMostInt = 11;

uint64_t SplitMix(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// FNV-1a.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  }
  return hash;
}

// Return a number in [-1, 1) as an element of one float type; where it rounds
// to 1, the next number below is taken. A float is rounded from 24 bits, which
// it holds, so that the 16-bit types are not rounded twice.
template <typename T>
T FloatOf(double value) = delete;

template <>
double FloatOf(double value) {
  return value;
}

template <>
float FloatOf(double value) {
  return static_cast<float>(std::floor(value * 0x1p23) * 0x1p-23);
}

template <>
Half FloatOf(double value) {
  const uint16_t bits = DoubleToHalf(value);
  return {bits == 0x3C00 ? uint16_t{0x3BFF} : bits};
}

template <>
Bfloat FloatOf(double value) {
  const uint16_t bits = FloatToBfloat(FloatOf<float>(value));
  return {bits == 0x3F80 ? uint16_t{0x3F7F} : bits};
}

// A format of powers of two alone has no sign, so that a negative number
// becomes its size.
template <ShortFloatElement T>
T FloatOf(double value) {
  constexpr ShortRounding kNearest{.powers = RoundMode::kNearest};
  const T rounded{EncodeShortFloat(T::kFormat, value, kNearest)};
  return DecodeElement(rounded) == 1 ? T{static_cast<uint8_t>(rounded.bits - 1)}
                                     : rounded;
}

using Fill = void (*)(RandomSource& source, const NDArray& tensor);

template <typename T>
void FillFloats(RandomSource& source, const NDArray& tensor) {
  T* const values = tensor.As<T>();
  const size_t count = tensor.bytes() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    values[i] = FloatOf<T>(source.Symmetric());
  }
}

struct Range {
  int64_t least;
  int64_t most;
};

// Returns the part of the range that the type holds; integers of 2 and 4 bits
// and bool are narrower.
Range IntRange(DLDataType dtype) {
  const int bits = dtype.code == kDTypeBool ? 1 : std::min<int>(dtype.bits, 32);
  const bool is_signed = dtype.code == kDLInt;
  const int64_t below = int64_t{1} << (is_signed ? bits - 1 : bits);
  return {is_signed ? std::max(kLeastInt, -below) : 0,
          std::min(kMostInt, below - 1)};
}

template <typename T>
void FillInts(RandomSource& source, const NDArray& tensor) {
  const Range range = IntRange(tensor.dtype());
  T* const values = tensor.As<T>();
  const size_t count = tensor.bytes() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(source.Between(range.least, range.most));
  }
}

// Signed integers are filled as the unsigned ones of their width.
template <typename T>
Fill FillFor() {
  if constexpr (std::is_same_v<T, Bool>) {
    return &FillInts<uint8_t>;
  } else if constexpr (std::is_integral_v<T>) {
    return &FillInts<std::make_unsigned_t<T>>;
  } else if constexpr (requires { typename T::Part; }) {
    return &FillFloats<typename T::Part>;
  } else {
    return &FillFloats<T>;
  }
}

Fill FindFill(DLDataType dtype) {
  Fill fill = nullptr;
  // Vectors of bool are left out: those of kBool, an unsigned integer of one
  // bit, are packed into bits, and kFfiBool is treated alike.
  if (dtype.code == kDTypeBool && dtype.lanes != 1) return fill;
  VisitElementType(dtype, [&fill](auto element) {
    fill = FillFor<typename decltype(element)::Stored>();
  });
  return fill;
}

}  // namespace

RandomSource::RandomSource(uint64_t seed, std::string_view stream) {
  uint64_t mixer = seed;
  mixer = SplitMix(&mixer) ^ HashOf(stream);
  for (uint64_t& word : state_) word = SplitMix(&mixer);
}

double RandomSource::Symmetric() {
  return static_cast<double>(Next() >> 11) * 0x1p-52 - 1.0;
}

absl::StatusOr<NDArray> RandomTensor(RandomSource& source,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype) {
  const Fill fill = FindFill(dtype);
  if (fill == nullptr) {
    return Unimplemented(
        "random tensor: type is {}, expected a float of 4 to 64 bits, an "
        "integer or bool",
        ToString(dtype));
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(shape, dtype, kCpu));
  fill(source, tensor);
  return tensor;
}

}  // namespace nodewise
