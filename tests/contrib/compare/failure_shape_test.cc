#include "nodewise/compare/failure_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/machine.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Sides that are not multiples of each other or of lanes.
const std::vector<int64_t> kSides = {2, 6, 11, 21};
constexpr size_t kWidth = 21, kHeight = 11, kChannels = 6;
constexpr size_t kCount = 2 * kChannels * kHeight * kWidth;
constexpr Tolerance kUsual = {1e-5, 1e-4};

std::vector<float> DrawnValues(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(kCount);
  for (float& value : values) value = draw(random);
  return values;
}

DifferenceDetails Described(const std::vector<float>& expected,
                            const std::vector<float>& actual) {
  const NDArray x = MakeTensor<float>(kSides, expected);
  const NDArray y = MakeTensor<float>(kSides, actual);
  const auto metrics = MeasureDifference(*x, *y, kUsual);
  EXPECT_THAT(metrics, IsOk());
  return DescribeDifference(*x, *y, *metrics, kUsual);
}

std::vector<std::string> ShapesOf(const DifferenceDetails& details) {
  std::vector<std::string> names;
  for (const FailurePattern& pattern : details.patterns) {
    names.emplace_back(NameOf(pattern.shape));
  }
  return names;
}

// Spoils the elements of which `is_wrong` is true.
std::vector<float> SpoiledWhere(const std::vector<float>& right,
                                const std::function<bool(size_t)>& is_wrong) {
  std::mt19937 random(99);
  std::normal_distribution<float> draw;
  std::vector<float> values = right;
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_wrong(i)) values[i] += 1 + std::fabs(draw(random));
  }
  return values;
}

size_t Column(size_t i) { return i % kWidth; }
size_t Row(size_t i) { return i / kWidth % kHeight; }
size_t Channel(size_t i) { return i / kWidth / kHeight % kChannels; }

struct PlaceCase {
  const char* shape;
  const char* words;
  std::function<bool(size_t)> is_wrong;
};

TEST(FailureShapeTest, PlacesOfWrongElementsAreRecognised) {
  const PlaceCase cases[] = {
      {"one-slice", "only at index 3 of axis 1 (of 6)",
       [](size_t i) { return Channel(i) == 3; }},
      {"one-slice", "indices 2 to 4 of axis 2 (of 11) and indices 5 to 9",
       [](size_t i) {
         return Row(i) > 1 && Row(i) < 5 && Column(i) > 4 && Column(i) < 10;
       }},
      {"last-lanes", "the last 5 of 21 along the last axis",
       [](size_t i) { return Column(i) >= 16; }},
      {"last-lanes", "the last 20 of 2772 elements",
       [](size_t i) { return i >= kCount - 20 && Column(i) % 2 == 0; }},
      {"every-nth", "only at every 8th element, from 5 on",
       [](size_t i) { return i % 8 == 5; }},
      {"border", "only at the border of axes 2 and 3",
       [](size_t i) {
         return Row(i) == 0 || Row(i) + 1 == kHeight || Column(i) == 0 ||
                Column(i) + 1 == kWidth;
       }},
  };
  const std::vector<float> right = DrawnValues(1);
  for (const PlaceCase& c : cases) {
    SCOPED_TRACE(c.words);
    const DifferenceDetails details =
        Described(right, SpoiledWhere(right, c.is_wrong));
    ASSERT_THAT(ShapesOf(details), ElementsAre(c.shape));
    EXPECT_THAT(details.patterns[0].words, HasSubstr(c.words));
  }
}

TEST(FailureShapeTest, NoiseHasNoShape) {
  // Many seeds show that false alarms are rare; a sanitizer watches memory.
  const uint32_t seeds = kSanitized ? 5 : 50;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<float> right = DrawnValues(seed);
    std::mt19937 random(seed + 1000);
    std::normal_distribution<float> draw;
    for (const double size : {1e-7, 1e-3, 1.0}) {
      for (const uint32_t every : {1U, 10U, 300U}) {
        std::vector<float> noisy = right;
        for (float& value : noisy) {
          const bool is_hit = random() % every == 0;
          if (is_hit) value += static_cast<float>(size) * draw(random);
        }
        EXPECT_THAT(ShapesOf(Described(right, noisy)), IsEmpty());
      }
    }
  }
}

// A part of it is looked at first.
TEST(FailureShapeTest, PlacesInALargeTensorAreRecognisedAndNoiseIsNot) {
  constexpr int64_t kRows = 700, kColumns = 600;
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  std::vector<float> right, noisy, wrong;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    right.push_back(draw(random));
    noisy.push_back(right.back() + draw(random));
    wrong.push_back(right.back() + (i / kColumns == 77 ? 1.0F : 0.0F));
  }
  const auto described = [&](const std::vector<float>& actual) {
    const NDArray x = MakeTensor<float>({kRows, kColumns}, right);
    const NDArray y = MakeTensor<float>({kRows, kColumns}, actual);
    const auto metrics = MeasureDifference(*x, *y, kUsual);
    EXPECT_THAT(metrics, IsOk());
    return ShapesOf(DescribeDifference(*x, *y, *metrics, kUsual));
  };
  EXPECT_THAT(described(noisy), IsEmpty());
  EXPECT_THAT(described(wrong), ElementsAre("one-slice"));
}

TEST(FailureShapeTest, AFewWrongElementsHaveNoShape) {
  const std::vector<float> right = DrawnValues(2);
  std::vector<float> wrong = right;
  wrong[100] += 1;
  wrong[108] += 1;
  EXPECT_THAT(ShapesOf(Described(right, wrong)), IsEmpty());
}

TEST(FailureShapeTest, AFactorIsRecognised) {
  const std::vector<float> right = DrawnValues(3);
  std::vector<float> wrong = right;
  for (float& value : wrong) value *= 1.001F;
  const DifferenceDetails details = Described(right, wrong);
  ASSERT_THAT(ShapesOf(details), ElementsAre("scaled"));
  EXPECT_THAT(details.patterns[0].words, HasSubstr("all is 1.001 times"));
}

TEST(FailureShapeTest, AnOffsetIsRecognised) {
  const std::vector<float> right = DrawnValues(4);
  std::vector<float> wrong = right;
  for (float& value : wrong) value += 0.5F;
  EXPECT_THAT(ShapesOf(Described(right, wrong)), ElementsAre("offset"));
}

TEST(FailureShapeTest, AxesInAnotherOrderAreRecognised) {
  const std::vector<float> right = DrawnValues(5);
  std::vector<float> wrong(kCount);
  size_t at = 0;
  // NHWC where NCHW is expected.
  for (size_t n = 0; n < 2; ++n) {
    for (size_t place = 0; place < kHeight * kWidth; ++place) {
      for (size_t c = 0; c < kChannels; ++c) {
        wrong[at++] = right[(n * kChannels + c) * kHeight * kWidth + place];
      }
    }
  }
  const DifferenceDetails details = Described(right, wrong);
  ASSERT_THAT(ShapesOf(details), ElementsAre("transposed"));
  EXPECT_THAT(details.patterns[0].words, HasSubstr("order 0, 2, 3, 1"));
}

TEST(FailureShapeTest, AShiftByOneIsRecognised) {
  const std::vector<float> right = DrawnValues(6);
  std::vector<float> columns = right, rows = right;
  for (size_t i = 0; i < kCount; ++i) {
    if (Column(i) > 0) columns[i] = right[i - 1];
    if (Row(i) + 1 < kHeight) rows[i] = right[i + kWidth];
  }
  const DifferenceDetails along = Described(right, columns);
  ASSERT_THAT(ShapesOf(along), Contains("shifted"));
  EXPECT_THAT(along.patterns[0].words,
              HasSubstr("one place further on along axis 3"));
  const DifferenceDetails across = Described(right, rows);
  ASSERT_THAT(ShapesOf(across), Contains("shifted"));
  EXPECT_THAT(across.patterns[0].words,
              HasSubstr("one place back along axis 2"));
}

TEST(FailureShapeTest, LostPrecisionIsRecognised) {
  const std::vector<float> right = DrawnValues(7);
  std::vector<float> half = right, bfloat = right;
  for (float& value : half) value = HalfToFloat(FloatToHalf(value));
  for (float& value : bfloat) value = BfloatToFloat(FloatToBfloat(value));
  const DifferenceDetails as_half = Described(right, half);
  ASSERT_THAT(ShapesOf(as_half), ElementsAre("precision-lost"));
  EXPECT_THAT(as_half.patterns[0].words, HasSubstr("numbers of float16"));
  const DifferenceDetails as_bfloat = Described(right, bfloat);
  ASSERT_THAT(ShapesOf(as_bfloat), ElementsAre("precision-lost"));
  EXPECT_THAT(as_bfloat.patterns[0].words, HasSubstr("numbers of bfloat16"));
}

TEST(FailureShapeTest, ElementsThatWereNeverWrittenAreRecognised) {
  const std::vector<float> right = DrawnValues(8);
  std::vector<float> zeros = right, random_bits = right;
  std::mt19937 random(9);
  for (size_t i = 1; i < kCount; i += 1 + random() % 4) {
    zeros[i] = 0;
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(&random_bits[i], &bits, sizeof(bits));
  }
  EXPECT_THAT(ShapesOf(Described(right, zeros)), ElementsAre("unwritten"));
  EXPECT_THAT(ShapesOf(Described(right, random_bits)),
              ElementsAre("uninitialised"));
}

TEST(FailureShapeTest, UlpsAreCounted) {
  const NDArray x = Floats({1, 1, 1, -1, 0, 1, NAN});
  const NDArray y = Floats({1, std::nextafter(1.0F, 2.0F), 1 + 0x1p-21F,
                            -1 - 0x1p-23F, -0.0F, 2, 1});
  const auto metrics = MeasureDifference(*x, *y);
  ASSERT_THAT(metrics, IsOk());
  const DifferenceDetails details = DescribeDifference(*x, *y, *metrics, {});
  UlpHistogram expected(25);
  expected[0] = 2;   // Equal.
  expected[1] = 2;   // 1.
  expected[3] = 1;   // 4: from 3 to 4.
  expected[24] = 1;  // 2^23.
  EXPECT_EQ(details.ulps, expected);
}

// A picture whose channels are BGR and not RGB.
TEST(FailureShapeTest, AnAxisInReverseOrderIsRecognised) {
  const std::vector<float> right = DrawnValues(5);
  std::vector<float> values = right;
  constexpr size_t kPlane = kHeight * kWidth;
  for (size_t i = 0; i < kCount; ++i) {
    values[i] =
        right[i + (kChannels - 1 - Channel(i)) * kPlane - Channel(i) * kPlane];
  }
  const DifferenceDetails details = Described(right, values);
  ASSERT_THAT(ShapesOf(details), ElementsAre("reversed"));
  EXPECT_THAT(details.patterns[0].words, HasSubstr("along axis 1"));
}

// A picture that was normalised twice, or not at all.
TEST(FailureShapeTest, AFactorWithANumberThatIsAddedIsRecognised) {
  const std::vector<float> right = DrawnValues(6);
  std::vector<float> values = right;
  for (float& value : values) value = 127.5f * value + 120;
  const DifferenceDetails details = Described(right, values);
  ASSERT_THAT(ShapesOf(details), ElementsAre("affine"));
  EXPECT_EQ(details.patterns[0].words,
            "all is 127.5 times what is expected, plus 120");
}

TEST(FailureShapeTest, NumbersThatLieOnNoLineAreNotOnOne) {
  const std::vector<float> right = DrawnValues(7);
  std::vector<float> values = right;
  for (float& value : values) value = value * std::fabs(value) + 1;
  EXPECT_THAT(ShapesOf(Described(right, values)), IsEmpty());
}

}  // namespace
}  // namespace nodewise
