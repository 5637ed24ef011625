#include "nodewise/ndarray/tensor_stats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/short_float.h"
#include "runtime/ndarray/tensor_stats_loops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::nodewise::stats_loops::AllLevels;
using ::nodewise::stats_loops::Level;
using ::nodewise::stats_loops::StatsAt;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr uint64_t kSeed = 20240611;

template <typename T>
double Plain(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return static_cast<double>(value);
}
double Half(const uint8_t* data) {
  uint16_t bits;
  std::memcpy(&bits, data, sizeof(bits));
  return HalfToFloat(bits);
}
double Bfloat(const uint8_t* data) {
  uint16_t bits;
  std::memcpy(&bits, data, sizeof(bits));
  return BfloatToFloat(bits);
}
double Bool(const uint8_t* data) { return *data != 0 ? 1 : 0; }

double E2M1(const uint8_t* data) {
  constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return ((*data & 8) != 0 ? -1 : 1) * kSizes[*data & 7];
}

// A type, and how the element at an address is read.
struct ElementFormat {
  DLDataType dtype;
  double (*read)(const uint8_t* data);
};

constexpr ElementFormat kFormats[] = {
    {{kDLFloat, 16, 1}, &Half},           {{kDLFloat, 32, 1}, &Plain<float>},
    {{kDLFloat, 64, 1}, &Plain<double>},  {{kDLBfloat, 16, 1}, &Bfloat},
    {{kDTypeE2M1, 4, 1}, &E2M1},          {{kDLInt, 2, 1}, &Plain<int8_t>},
    {{kDLInt, 4, 1}, &Plain<int8_t>},     {{kDLInt, 8, 1}, &Plain<int8_t>},
    {{kDLInt, 16, 1}, &Plain<int16_t>},   {{kDLInt, 32, 1}, &Plain<int32_t>},
    {{kDLInt, 64, 1}, &Plain<int64_t>},   {{kDLUInt, 1, 1}, &Bool},
    {{kDLUInt, 2, 1}, &Plain<uint8_t>},   {{kDLUInt, 4, 1}, &Plain<uint8_t>},
    {{kDLUInt, 8, 1}, &Plain<uint8_t>},   {{kDLUInt, 16, 1}, &Plain<uint16_t>},
    {{kDLUInt, 32, 1}, &Plain<uint32_t>}, {{kDLUInt, 64, 1}, &Plain<uint64_t>},
};

bool IsFloat(DLDataType dtype) {
  return dtype.code == kDLFloat || dtype.code == kDLBfloat;
}

// Lengths that end in, at and after every unit the loops work by.
std::vector<size_t> Lengths() {
  std::vector<size_t> lengths(201);
  std::iota(lengths.begin(), lengths.end(), size_t{0});
  for (const size_t bytes : {4096, 8192, 12288}) {
    for (const size_t width : {1, 2, 4, 8}) {
      for (const int off : {-17, -1, 0, 1, 17}) {
        lengths.push_back(bytes / width + static_cast<size_t>(off));
      }
    }
  }
  return lengths;
}

enum class Content { kFinite, kAnything };

// Random elements, one in eight of them 0, of either sign; of floats, the
// finite ones are below 2 and the others take all bits there are.
std::vector<uint8_t> RandomBytes(DLDataType dtype, size_t count,
                                 Content content, std::mt19937_64* random) {
  const size_t width = ElementBytes(dtype);
  const uint64_t sign = uint64_t{1} << (8 * width - 1);
  std::vector<uint8_t> bytes(count * width);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = (*random)();
    if ((bits >> 13) % 8 == 0) bits &= IsFloat(dtype) ? sign : 0;
    if (IsFloat(dtype) && content == Content::kFinite) bits &= ~(sign >> 1);
    // Squares of larger doubles have no sum; see LargeDoublesKeepTheirMean.
    const bool is_large = dtype.bits == 64 && (bits & sign >> 1) != 0;
    if (IsFloat(dtype) && is_large) bits |= 0x7FFull << 52;
    std::memcpy(&bytes[i * width], &bits, width);
  }
  return bytes;
}

DLTensor View(const void* data, int64_t* count, DLDataType dtype) {
  DLTensor tensor{};
  tensor.data = const_cast<void*>(data);
  tensor.device = kCpu;
  tensor.ndim = 1;
  tensor.dtype = dtype;
  tensor.shape = count;
  return tensor;
}

TensorStats StatsOfBytes(const std::vector<uint8_t>& bytes, DLDataType dtype,
                         const Level& level = stats_loops::BestLevel()) {
  auto count = static_cast<int64_t>(bytes.size() / ElementBytes(dtype));
  return StatsAt(level, View(bytes.data(), &count, dtype));
}

template <typename T>
TensorStats StatsOfValues(const std::vector<T>& values) {
  return StatsOf(*MakeTensor<T>({static_cast<int64_t>(values.size())}, values));
}

// Calculated by the definitions; `mean` and `l2` are sums in a wider type.
// `size` is the numbers' mean magnitude, which bounds the error of the mean.
struct Expected {
  TensorStats stats;
  double size = 0;
};

Expected ByTheBook(const std::vector<uint8_t>& bytes,
                   const ElementFormat& format) {
  Expected expected;
  TensorStats& stats = expected.stats;
  long double sum = 0;
  long double squares = 0;
  long double sizes = 0;
  uint64_t finite = 0;
  stats.min = stats.max = std::numeric_limits<double>::quiet_NaN();
  for (size_t at = 0; at < bytes.size(); at += ElementBytes(format.dtype)) {
    const double x = format.read(&bytes[at]);
    ++stats.elements;
    if (std::isnan(x)) {
      ++stats.nans;
      continue;
    }
    stats.min = std::fmin(stats.min, x);
    stats.max = std::fmax(stats.max, x);
    if (std::isinf(x)) {
      ++stats.infinities;
      continue;
    }
    ++finite;
    if (x == 0) ++stats.zeros;
    sum += x;
    sizes += std::fabs(x);
    squares += static_cast<long double>(x) * x;
  }
  stats.mean = static_cast<double>(sum / finite);
  stats.l2 = static_cast<double>(std::sqrt(squares));
  expected.size = finite == 0 ? 0 : static_cast<double>(sizes / finite);
  return expected;
}

bool Same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

void ExpectByTheBook(const TensorStats& stats, const Expected& expected) {
  EXPECT_TRUE(stats.has_numbers);
  EXPECT_EQ(stats.elements, expected.stats.elements);
  EXPECT_EQ(stats.nans, expected.stats.nans);
  EXPECT_EQ(stats.infinities, expected.stats.infinities);
  EXPECT_EQ(stats.zeros, expected.stats.zeros);
  EXPECT_TRUE(Same(stats.min, expected.stats.min)) << stats.min;
  EXPECT_TRUE(Same(stats.max, expected.stats.max)) << stats.max;
  if (std::isnan(expected.stats.mean)) {
    EXPECT_TRUE(std::isnan(stats.mean)) << stats.mean;
  } else {
    EXPECT_NEAR(stats.mean, expected.stats.mean, 1e-13 * expected.size);
  }
  EXPECT_NEAR(stats.l2, expected.stats.l2, 1e-13 * expected.stats.l2);
}

// All bits but those of NaNs, which mean nothing.
std::string BitsOf(const TensorStats& stats) {
  std::string text;
  for (const uint64_t number : {stats.hash, stats.elements, stats.nans,
                                stats.infinities, stats.zeros}) {
    text += std::to_string(number) + " ";
  }
  for (const double x : {stats.min, stats.max, stats.mean, stats.l2}) {
    text += std::isnan(x) ? "nan "
                          : std::to_string(std::bit_cast<uint64_t>(x)) + " ";
  }
  return text;
}

TEST(TensorStatsTest, EveryTypeAndLengthIsAsByTheBook) {
  std::mt19937_64 random(kSeed);
  for (const ElementFormat& format : kFormats) {
    for (const Content content : {Content::kFinite, Content::kAnything}) {
      for (const size_t count : Lengths()) {
        const auto bytes = RandomBytes(format.dtype, count, content, &random);
        SCOPED_TRACE(ToString(format.dtype) + " " + std::to_string(count));
        ExpectByTheBook(StatsOfBytes(bytes, format.dtype),
                        ByTheBook(bytes, format));
        ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << kSeed;
      }
    }
  }
}

TEST(TensorStatsTest, EveryHalfAndBfloatIsCounted) {
  std::vector<uint8_t> bytes(2 * 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    std::memcpy(&bytes[2 * bits], &bits, 2);
  }
  for (const ElementFormat& format : kFormats) {
    if (!IsFloat(format.dtype) || format.dtype.bits != 16) continue;
    for (const Level& level : AllLevels()) {
      if (!level.works_here()) continue;
      SCOPED_TRACE(ToString(format.dtype) + " " + level.name);
      ExpectByTheBook(StatsOfBytes(bytes, format.dtype, level),
                      ByTheBook(bytes, format));
    }
  }
}

TEST(TensorStatsTest, LevelsAgreeBitForBit) {
  std::mt19937_64 random(kSeed);
  const absl::Span<const Level> levels = AllLevels();
  const Level& baseline = levels.back();
  for (const ElementFormat& format : kFormats) {
    for (const Content content : {Content::kFinite, Content::kAnything}) {
      for (const size_t count : Lengths()) {
        const auto bytes = RandomBytes(format.dtype, count, content, &random);
        const auto expected =
            BitsOf(StatsOfBytes(bytes, format.dtype, baseline));
        for (const Level& level : levels) {
          if (!level.works_here()) continue;
          ASSERT_EQ(BitsOf(StatsOfBytes(bytes, format.dtype, level)), expected)
              << ToString(format.dtype) << " " << count << " " << level.name;
        }
      }
    }
  }
}

TEST(TensorStatsTest, AddressDoesNotMatter) {
  std::mt19937_64 random(kSeed);
  for (const ElementFormat& format : kFormats) {
    const auto bytes =
        RandomBytes(format.dtype, 1500, Content::kAnything, &random);
    const std::string expected = BitsOf(StatsOfBytes(bytes, format.dtype));
    int64_t count = 1500;
    for (size_t offset = 1; offset < 65; ++offset) {
      std::vector<uint8_t> moved(offset);
      moved.insert(moved.end(), bytes.begin(), bytes.end());
      const DLTensor tensor = View(&moved[offset], &count, format.dtype);
      ASSERT_EQ(BitsOf(StatsOf(tensor)), expected)
          << ToString(format.dtype) << " " << offset;
    }
  }
}

TEST(TensorStatsTest, HashIsThatOfTheBytes) {
  std::mt19937_64 random(kSeed);
  for (const ElementFormat& format : kFormats) {
    for (const size_t count : Lengths()) {
      const auto bytes =
          RandomBytes(format.dtype, count, Content::kAnything, &random);
      ASSERT_EQ(StatsOfBytes(bytes, format.dtype).hash,
                HashBytes(bytes.data(), bytes.size()));
    }
  }
}

TEST(TensorStatsTest, LargeTensorIsHashedAsAWhole) {
  std::mt19937_64 random(kSeed);
  const DLDataType dtype{kDLFloat, 32, 1};
  for (const size_t count : {16384, 25000, 65537}) {
    const auto bytes = RandomBytes(dtype, count, Content::kFinite, &random);
    EXPECT_EQ(StatsOfBytes(bytes, dtype).hash,
              HashBytes(bytes.data(), bytes.size()));
  }
}

TEST(TensorStatsTest, EmptyTensorHasNoMinimum) {
  for (const ElementFormat& format : kFormats) {
    const TensorStats stats = StatsOfBytes({}, format.dtype);
    EXPECT_TRUE(stats.has_numbers);
    EXPECT_TRUE(HasNumbers(format.dtype));
    EXPECT_EQ(stats.elements, 0u);
    EXPECT_EQ(stats.hash, HashBytes(nullptr, 0));
    EXPECT_TRUE(std::isnan(stats.min) && std::isnan(stats.max));
    EXPECT_TRUE(std::isnan(stats.mean));
    EXPECT_EQ(stats.l2, 0);
  }
}

TEST(TensorStatsTest, TensorWithoutDimensionsHasOneElement) {
  const TensorStats stats = StatsOf(*MakeTensor<float>({}, {-2.5f}));
  EXPECT_EQ(stats.elements, 1u);
  EXPECT_EQ(stats.min, -2.5);
  EXPECT_EQ(stats.max, -2.5);
  EXPECT_EQ(stats.mean, -2.5);
  EXPECT_EQ(stats.l2, 2.5);
}

TEST(TensorStatsTest, NansAloneHaveNoMinimum) {
  for (const size_t count : {1, 16, 64, 1024, 5000}) {
    const TensorStats stats =
        StatsOfValues(std::vector<float>(count, std::nanf("")));
    EXPECT_EQ(stats.nans, count);
    EXPECT_TRUE(std::isnan(stats.min) && std::isnan(stats.max));
    EXPECT_TRUE(std::isnan(stats.mean));
    EXPECT_EQ(stats.l2, 0);
  }
}

TEST(TensorStatsTest, InfinityIsAMinimumButNotInTheMean) {
  std::vector<float> values(4099, 1);
  values[77] = -INFINITY;
  values[4098] = INFINITY;
  const TensorStats stats = StatsOfValues(values);
  EXPECT_EQ(stats.infinities, 2u);
  EXPECT_EQ(stats.min, -kInf);
  EXPECT_EQ(stats.max, kInf);
  EXPECT_EQ(stats.mean, 1);
  EXPECT_EQ(stats.l2, std::sqrt(4097.0));
}

TEST(TensorStatsTest, NanInOneBlockLeavesTheSumsOfTheOthers) {
  std::vector<float> values(1 << 14, 0.5f);
  values[9000] = std::nanf("");
  const TensorStats stats = StatsOfValues(values);
  EXPECT_EQ(stats.nans, 1u);
  EXPECT_EQ(stats.infinities, 0u);
  EXPECT_EQ(stats.mean, 0.5);
  EXPECT_EQ(stats.l2, std::sqrt(0.25 * ((1 << 14) - 1)));
}

TEST(TensorStatsTest, MinusZeroCountsAsZero) {
  for (const size_t count : {3, 16, 100}) {
    const TensorStats stats = StatsOfValues(std::vector<float>(count, -0.0f));
    EXPECT_EQ(stats.zeros, count);
    EXPECT_FALSE(std::signbit(stats.min) || std::signbit(stats.max));
  }
}

TEST(TensorStatsTest, SubnormalsAreNumbers) {
  const double least = std::numeric_limits<float>::denorm_min();
  const TensorStats stats = StatsOfValues(
      std::vector<float>(64, std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(stats.zeros, 0u);
  EXPECT_EQ(stats.min, least);
  EXPECT_EQ(stats.mean, least);
  EXPECT_EQ(stats.l2, 8 * least);
}

TEST(TensorStatsTest, LargestIntegersAreRoundedToDouble) {
  const TensorStats of_signed =
      StatsOfValues<int64_t>({std::numeric_limits<int64_t>::min(), 0,
                              std::numeric_limits<int64_t>::max()});
  EXPECT_EQ(of_signed.min, -0x1p63);
  EXPECT_EQ(of_signed.max, 0x1p63);
  const TensorStats of_unsigned = StatsOfValues<uint64_t>(
      std::vector<uint64_t>(8, std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(of_unsigned.min, 0x1p64);
  EXPECT_EQ(of_unsigned.mean, 0x1p64);
}

TEST(TensorStatsTest, LargeDoublesKeepTheirMean) {
  const std::vector<double> values(1000, 1e300);
  const TensorStats stats = StatsOfValues(values);
  EXPECT_EQ(stats.infinities, 0u);
  EXPECT_EQ(stats.max, 1e300);
  EXPECT_NEAR(stats.mean, 1e300, 1e287);
  EXPECT_EQ(stats.l2, kInf);
}

TEST(TensorStatsTest, LanesAreCountedOneByOne) {
  const NDArray tensor =
      MakeTensor<float>({2}, {1, 2, 3, 4, 5, 6, 7, 8}, {kDLFloat, 32, 4});
  const TensorStats stats = StatsOf(*tensor);
  EXPECT_EQ(stats.elements, 8u);
  EXPECT_EQ(stats.mean, 4.5);
  EXPECT_EQ(stats.max, 8);
}

TEST(TensorStatsTest, TypesWithoutNumbersHaveAHashOnly) {
  const DLDataType rows[] = {{kDLOpaqueHandle, 64, 1}, {kDLInt, 1, 1},
                             {kDLUInt, 4, 2},          {kDLUInt, 1, 8},
                             {kDLInt, 128, 1},         {kDLComplex, 64, 1}};
  for (const DLDataType dtype : rows) {
    const std::vector<uint8_t> bytes(3 * ElementBytes(dtype), 0x3C);
    const TensorStats stats = StatsOfBytes(bytes, dtype);
    EXPECT_FALSE(stats.has_numbers) << ToString(dtype);
    EXPECT_FALSE(HasNumbers(dtype)) << ToString(dtype);
    EXPECT_EQ(stats.elements, 3u * dtype.lanes);
    EXPECT_EQ(stats.hash, HashBytes(bytes.data(), bytes.size()));
    EXPECT_EQ(stats.max, 0);
  }
}

}  // namespace
}  // namespace nodewise
