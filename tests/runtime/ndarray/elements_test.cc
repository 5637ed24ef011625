#include "nodewise/ndarray/elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What an element type is by its definition, written without its decoder.
struct Definition {
  DLDataType dtype;
  double (*value)(uint32_t bits);
};

// The value of a float with a sign, `exponent_bits` and `fraction_bits`; its
// last exponent means infinity and NaN.
double FloatValue(uint32_t bits, int exponent_bits, int fraction_bits) {
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  const int last = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & last;
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  if (exponent == last) return fraction != 0 ? kNan : sign * kInfinity;
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  const int scale = std::max(exponent, 1) - last / 2 - fraction_bits;
  return sign * std::ldexp(hidden + fraction, scale);
}

// Its last exponent means numbers as the others do, but for the last of them.
double E4M3Value(uint32_t bits) {
  const double sign = bits & 0x80 ? -1 : 1;
  if ((bits & 0x7F) == 0x7F) return kNan;
  if ((bits & 0x78) == 0x78) return sign * 256 * (1 + (bits & 7) / 8.0);
  return FloatValue(bits, 4, 3);
}

// The value of a float all of whose exponents mean numbers.
double NumberValue(uint32_t bits, int exponent_bits, int fraction_bits,
                   int bias) {
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  const int exponent =
      static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double part = std::ldexp(fraction, -fraction_bits);
  return exponent == 0 ? sign * std::ldexp(part, 1 - bias)
                       : sign * std::ldexp(1 + part, exponent - bias);
}

double UnsignedValue(uint32_t bits) { return bits; }

double SignedValue(uint32_t bits, uint32_t limit) {
  return bits < limit / 2 ? bits : static_cast<double>(bits) - limit;
}

constexpr Definition kByteTypes[] = {
    {kBool, [](uint32_t bits) { return bits == 0 ? 0.0 : 1.0; }},
    {kFfiBool, [](uint32_t bits) { return bits == 0 ? 0.0 : 1.0; }},
    {{kDLInt, 1, 1}, [](uint32_t bits) { return SignedValue(bits, 256); }},
    {{kDLInt, 4, 1}, [](uint32_t bits) { return SignedValue(bits, 256); }},
    {{kDLInt, 8, 1}, [](uint32_t bits) { return SignedValue(bits, 256); }},
    {{kDLInt, 2, 1}, [](uint32_t bits) { return SignedValue(bits, 256); }},
    {{kDLUInt, 2, 1}, &UnsignedValue},
    {{kDLUInt, 4, 1}, &UnsignedValue},
    {{kDLUInt, 8, 1}, &UnsignedValue},
    {{kDTypeE4M3, 8, 1}, &E4M3Value},
    {{kDTypeE4M3Fnuz, 8, 1},
     [](uint32_t bits) {
       return bits == 0x80 ? kNan : NumberValue(bits, 4, 3, 8);
     }},
    {{kDTypeE5M2, 8, 1}, [](uint32_t bits) { return FloatValue(bits, 5, 2); }},
    {{kDTypeE5M2Fnuz, 8, 1},
     [](uint32_t bits) {
       return bits == 0x80 ? kNan : NumberValue(bits, 5, 2, 16);
     }},
    {{kDTypeE8M0, 8, 1},
     [](uint32_t bits) {
       return bits == 0xFF ? kNan : std::ldexp(1, static_cast<int>(bits) - 127);
     }},
    {{kDTypeE2M1, 4, 1},
     [](uint32_t bits) { return NumberValue(bits & 15, 2, 1, 1); }},
};

constexpr Definition kWordTypes[] = {
    {{kDLInt, 16, 1}, [](uint32_t bits) { return SignedValue(bits, 65536); }},
    {{kDLUInt, 16, 1}, &UnsignedValue},
    {{kDLFloat, 16, 1}, [](uint32_t bits) { return FloatValue(bits, 5, 10); }},
    {{kDLBfloat, 16, 1}, [](uint32_t bits) { return FloatValue(bits, 8, 7); }},
};

// All types that a DLDataType can hold; lanes of 1.
std::vector<DLDataType> AllCodesAndWidths() {
  std::vector<DLDataType> types;
  for (int code = 0; code < 256; ++code) {
    for (int bits = 0; bits < 256; ++bits) {
      types.push_back(
          {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1});
    }
  }
  return types;
}

// Returns all patterns of bits that an element can have.
template <typename T>
std::vector<T> AllPatterns() {
  std::vector<T> patterns(size_t{std::numeric_limits<T>::max()} + 1);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<T>(i);
  return patterns;
}

// Equal as bits, but that one NaN is as good as another.
bool IsSameNumber(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

template <typename T>
void ExpectByDefinition(const Definition& type) {
  const std::vector<T> patterns = AllPatterns<T>();
  std::vector<double> decoded(patterns.size());
  ASSERT_TRUE(DecodeToDoubles(type.dtype, patterns.data(), patterns.size(),
                              decoded.data()));
  for (const T bits : patterns) {
    const double expected = type.value(bits);
    ASSERT_TRUE(IsSameNumber(decoded[bits], expected))
        << ToString(type.dtype) << " of bits " << bits << ": got "
        << decoded[bits] << ", expected " << expected;
  }
}

TEST(ElementsTest, EveryShortTypeHasADefinition) {
  std::set<std::string> defined;
  for (const Definition& type : kByteTypes)
    defined.insert(ToString(type.dtype));
  for (const Definition& type : kWordTypes)
    defined.insert(ToString(type.dtype));
  for (const DLDataType dtype : AllCodesAndWidths()) {
    if (dtype.bits > 16 || !VisitElementType(dtype, [](auto) {})) continue;
    EXPECT_EQ(defined.count(ToString(dtype)), 1) << ToString(dtype);
  }
}

TEST(ElementsTest, EveryPatternOf8BitsIsDecodedByDefinition) {
  for (const Definition& type : kByteTypes) ExpectByDefinition<uint8_t>(type);
}

TEST(ElementsTest, EveryPatternOf16BitsIsDecodedByDefinition) {
  for (const Definition& type : kWordTypes) ExpectByDefinition<uint16_t>(type);
}

// Decodes one element.
template <typename T>
double Decoded(DLDataType dtype, T element) {
  double number = kNan;
  EXPECT_TRUE(DecodeToDoubles(dtype, &element, 1, &number));
  return number;
}

TEST(ElementsTest, WideTypesAreDecodedToTheirLimits) {
  EXPECT_EQ(Decoded({kDLInt, 32, 1}, INT32_MIN), -2147483648.0);
  EXPECT_EQ(Decoded({kDLUInt, 32, 1}, UINT32_MAX), 4294967295.0);
  EXPECT_EQ(Decoded({kDLInt, 64, 1}, INT64_MIN), -0x1p63);
  EXPECT_EQ(Decoded({kDLInt, 64, 1}, (int64_t{1} << 53) + 3), 0x1p53 + 4);
  EXPECT_EQ(Decoded({kDLUInt, 64, 1}, UINT64_MAX), 0x1p64);
  EXPECT_EQ(Decoded({kDLFloat, 32, 1}, 0x1p-149F), 0x1p-149);
  EXPECT_EQ(Decoded({kDLFloat, 64, 1}, 0x1p-1074), 0x1p-1074);
  EXPECT_TRUE(std::signbit(Decoded({kDLFloat, 32, 1}, -0.0F)));
  EXPECT_TRUE(std::isnan(Decoded({kDLFloat, 64, 1}, kNan)));
}

// Statistics decode with vectors, in loops of their own.
template <typename T>
void ExpectStatsOfEveryPattern(DLDataType dtype) {
  for (T bits : AllPatterns<T>()) {
    int64_t count = 1;
    DLTensor tensor{&bits, kCpu, 1, dtype, &count, nullptr, 0};
    const TensorStats stats = StatsOf(tensor);
    ASSERT_TRUE(stats.has_numbers);
    // Adding 0 makes -0 a 0, as in statistics.
    ASSERT_TRUE(IsSameNumber(stats.min, Decoded(dtype, bits) + 0.0))
        << ToString(dtype) << " of bits " << bits << ": " << stats.min;
  }
}

TEST(ElementsTest, StatisticsReadEveryPatternAsItIsDecoded) {
  for (const Definition& type : kByteTypes) {
    if (!HasNumbers(type.dtype)) continue;
    ExpectStatsOfEveryPattern<uint8_t>(type.dtype);
  }
  for (const Definition& type : kWordTypes) {
    ExpectStatsOfEveryPattern<uint16_t>(type.dtype);
  }
}

TEST(ElementsTest, ElementsAreReadAtAnyAddress) {
  const double numbers[] = {1.5, -2.5};
  uint8_t bytes[1 + sizeof(numbers)];
  std::memcpy(bytes + 1, numbers, sizeof(numbers));
  double decoded[2] = {};
  EXPECT_TRUE(DecodeToDoubles({kDLFloat, 64, 1}, bytes + 1, 2, decoded));
  EXPECT_EQ(decoded[0], 1.5);
  EXPECT_EQ(decoded[1], -2.5);
  EXPECT_EQ(LoadElement<double>(bytes + 1, 1), -2.5);
}

TEST(ElementsTest, VisitingFindsTheTypeOfTheDType) {
  size_t visited = 0;
  for (const DLDataType dtype : AllCodesAndWidths()) {
    const bool is_known = VisitElementType(dtype, [&](auto element) {
      using E = decltype(element);
      ++visited;
      EXPECT_EQ(ToString(E::kDType), ToString(dtype));
      EXPECT_EQ(sizeof(typename E::Stored), ElementBytes(dtype));
      EXPECT_EQ(E::kHasNumbers, HasNumbers(dtype)) << ToString(dtype);
      EXPECT_TRUE(CheckDType(dtype).ok()) << ToString(dtype);
    });
    EXPECT_EQ(is_known, ElementIndex(dtype) < kNumElementTypes);
    EXPECT_TRUE(is_known || !HasNumbers(dtype)) << ToString(dtype);
  }
  EXPECT_EQ(visited, kNumElementTypes);
}

TEST(ElementsTest, EveryTypeHasAnIndexOfItsOwn) {
  std::set<size_t> indices;
  for (const DLDataType dtype : AllCodesAndWidths()) {
    const size_t index = ElementIndex(dtype);
    if (index == kNumElementTypes) continue;
    EXPECT_TRUE(indices.insert(index).second) << ToString(dtype);
  }
  EXPECT_EQ(indices.size(), kNumElementTypes);
}

TEST(ElementsTest, EveryTypeIsReadBackByItsName) {
  for (const DLDataType dtype : AllCodesAndWidths()) {
    if (ElementIndex(dtype) == kNumElementTypes) continue;
    const auto read = ParseDType(ToString(dtype));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == dtype) << ToString(dtype);
  }
}

TEST(ElementsTest, LanesAreVisitedAsTheirElement) {
  EXPECT_EQ(ElementIndex({kDLFloat, 32, 4}), ElementIndex({kDLFloat, 32, 1}));
  EXPECT_EQ(ElementIndex({kDTypeBool, 8, 4}), ElementIndex(kFfiBool));
}

// Expects that elements of this type cannot be read.
void ExpectUnreadable(DLDataType dtype) {
  const uint64_t element[2] = {};
  double number = -1;
  EXPECT_FALSE(DecodeToDoubles(dtype, element, 1, &number)) << ToString(dtype);
  EXPECT_EQ(number, -1) << ToString(dtype);
}

TEST(ElementsTest, UnknownAndPackedTypesAreRefused) {
  for (const DLDataType dtype :
       {DLDataType{kDLOpaqueHandle, 64, 1}, DLDataType{kDLOpaqueHandle, 0, 0},
        DLDataType{kDLFloat, 8, 1}, DLDataType{kDLFloat, 128, 1},
        DLDataType{kDLInt, 4, 8}, DLDataType{kDLUInt, 1, 8},
        DLDataType{255, 255, 65535}}) {
    ExpectUnreadable(dtype);
    EXPECT_FALSE(VisitElementType(dtype, [](auto) {})) << ToString(dtype);
    EXPECT_EQ(ElementIndex(dtype), kNumElementTypes) << ToString(dtype);
  }
}

TEST(ElementsTest, ComplexNumbersAreNotDoubles) {
  ExpectUnreadable({kDLComplex, 64, 1});
  ExpectUnreadable({kDLComplex, 128, 1});
}

template <typename E>
struct IsComplex
    : std::bool_constant<E::kDType.code == static_cast<uint8_t>(kDLComplex)> {};

TEST(ElementsTest, APartOfTheListVisitsOnlyItsTypes) {
  using Found = ElementsWhere<IsComplex>;
  EXPECT_TRUE(VisitOneOf(Found(), {kDLComplex, 128, 1}, [](auto element) {
    EXPECT_EQ(sizeof(typename decltype(element)::Stored), 16);
  }));
  EXPECT_FALSE(VisitOneOf(Found(), kFloat32, [](auto) {}));
}

}  // namespace
}  // namespace nodewise
