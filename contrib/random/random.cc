#include "nodewise/random/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fmt/format.h"
#include "nodewise/ndarray/half.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

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

// Rounds to the nearest float that has this many explicit mantissa bits and
// this exponent bias. REQUIRES: |value| <= 1, where no type has infinities.
uint8_t ToFloat8(double value, int mantissa_bits, int bias) {
  const double magnitude = std::fabs(value);
  const int exponent =
      magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  // For a normal number this holds the leading 1, which adds one to the
  // exponent field, as does a carry from rounding.
  const double significand =
      std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const int code =
      ((exponent + bias - 1) << mantissa_bits) + static_cast<int>(significand);
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

// Each writes the bits of one float type. `value` is in [-1, 1); where it
// rounds to 1, the next number below is taken. A float is rounded from 24 bits,
// which it holds, so that the 16-bit types are not rounded twice.
struct AsFloat64 {
  using Bits = uint64_t;
  static Bits Of(double value) { return std::bit_cast<Bits>(value); }
};

double Keep24Bits(double value) { return std::floor(value * 0x1p23) * 0x1p-23; }

struct AsFloat32 {
  using Bits = uint32_t;
  static Bits Of(double value) {
    return std::bit_cast<Bits>(static_cast<float>(Keep24Bits(value)));
  }
};

struct AsFloat16 {
  using Bits = uint16_t;
  static Bits Of(double value) {
    const Bits bits = DoubleToHalf(value);
    return bits == 0x3C00 ? 0x3BFF : bits;
  }
};

struct AsBfloat16 {
  using Bits = uint16_t;
  static Bits Of(double value) {
    const Bits bits = FloatToBfloat(static_cast<float>(Keep24Bits(value)));
    return bits == 0x3F80 ? 0x3F7F : bits;
  }
};

struct AsE4M3 {
  using Bits = uint8_t;
  static Bits Of(double value) {
    const Bits bits = ToFloat8(value, 3, 7);
    return bits == 0x38 ? 0x37 : bits;
  }
};

struct AsE5M2 {
  using Bits = uint8_t;
  static Bits Of(double value) {
    const Bits bits = ToFloat8(value, 2, 15);
    return bits == 0x3C ? 0x3B : bits;
  }
};

using Fill = void (*)(RandomSource& source, const NDArray& tensor);

template <typename As>
void FillFloats(RandomSource& source, const NDArray& tensor) {
  auto* const values = tensor.As<typename As::Bits>();
  const size_t count = tensor.bytes() / sizeof(typename As::Bits);
  for (size_t i = 0; i < count; ++i) values[i] = As::Of(source.Symmetric());
}

struct Range {
  int64_t least;
  int64_t most;
};

// Returns the part of the range that the type holds; 4-bit integers and bool
// are narrower.
Range IntRange(DLDataType dtype) {
  const int bits = std::min<int>(dtype.bits, 32);
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

// Fills a tensor with 0 and 1, like one of kBool.
void FillBools(RandomSource& source, const NDArray& tensor) {
  auto* const values = tensor.As<uint8_t>();
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    values[i] = static_cast<uint8_t>(source.Between(0, 1));
  }
}

Fill IntFill(DLDataType dtype) {
  if (dtype.bits < 8 && dtype.lanes > 1) return nullptr;
  switch (dtype.bits) {
    case 1:
    case 4:
    case 8:
      return &FillInts<uint8_t>;
    case 16:
      return &FillInts<uint16_t>;
    case 32:
      return &FillInts<uint32_t>;
    case 64:
      return &FillInts<uint64_t>;
    default:
      return nullptr;
  }
}

struct FloatRow {
  uint8_t code;
  uint8_t bits;
  Fill fill;
};

constexpr FloatRow kFloats[] = {
    {kDLFloat, 16, &FillFloats<AsFloat16>},
    {kDLFloat, 32, &FillFloats<AsFloat32>},
    {kDLFloat, 64, &FillFloats<AsFloat64>},
    {kDLBfloat, 16, &FillFloats<AsBfloat16>},
    {kDTypeE4M3, 8, &FillFloats<AsE4M3>},
    {kDTypeE5M2, 8, &FillFloats<AsE5M2>},
    {kDLComplex, 64, &FillFloats<AsFloat32>},
    {kDLComplex, 128, &FillFloats<AsFloat64>},
};

Fill FindFill(DLDataType dtype) {
  if (dtype == kFfiBool) return &FillBools;
  if (dtype.code == kDLInt || dtype.code == kDLUInt) return IntFill(dtype);
  for (const FloatRow& row : kFloats) {
    if (row.code == dtype.code && row.bits == dtype.bits) return row.fill;
  }
  return nullptr;
}

}  // namespace

RandomSource::RandomSource(uint64_t seed, std::string_view stream) {
  uint64_t mixer = seed;
  mixer = SplitMix(&mixer) ^ HashOf(stream);
  for (uint64_t& word : state_) word = SplitMix(&mixer);
}

uint64_t RandomSource::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomSource::Symmetric() {
  return static_cast<double>(Next() >> 11) * 0x1p-52 - 1.0;
}

int64_t RandomSource::Between(int64_t least, int64_t most) {
  NODEWISE_CHECK(least <= most);
  const uint64_t count =
      static_cast<uint64_t>(most) - static_cast<uint64_t>(least) + 1;
  NODEWISE_CHECK(count > 0 && count <= uint64_t{1} << 32);
  // One draw for each number, in exchange for a bias of at most 2^-32.
  return least + static_cast<int64_t>((Next() >> 32) * count >> 32);
}

absl::StatusOr<NDArray> RandomTensor(RandomSource& source,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype) {
  const Fill fill = FindFill(dtype);
  if (fill == nullptr) {
    return absl::UnimplementedError(
        fmt::format("random tensor: type is {}, expected a float of 8 to "
                    "64 bits, an integer or bool",
                    ToString(dtype)));
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(shape, dtype, kCpu));
  fill(source, tensor);
  return tensor;
}

}  // namespace nodewise
