#include "nodewise/precision/calibration.h"

#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

std::vector<float> UpTo(int count) {
  std::vector<float> numbers;
  for (int i = 1; i <= count; ++i) {
    numbers.push_back(static_cast<float>(i) / static_cast<float>(count));
  }
  return numbers;
}

TEST(CalibrationTest, TheRangeOfAllNumbersIsExact) {
  RangeHistogram histogram;
  histogram.Add({0.125F, -3.1F});
  histogram.Add({7.3F, 0, -NAN, INFINITY});
  EXPECT_EQ(histogram.MinMax().low, double{-3.1F});
  EXPECT_EQ(histogram.MinMax().high, double{7.3F});
}

TEST(CalibrationTest, APercentileCutsOffFewLargeNumbers) {
  RangeHistogram histogram;
  histogram.Add(UpTo(100'000));
  histogram.Add({1000});
  // A bin is half as wide as 1 now.
  EXPECT_LT(histogram.Percentile(99).high, 2);
}

TEST(CalibrationTest, PercentilesAreThoseOfTheNumbersToABin) {
  RangeHistogram histogram;
  histogram.Add(UpTo(100'000));
  const ValueRange range = histogram.Percentile(90);
  EXPECT_THAT(range.low, DoubleNear(0.05, 1e-3));
  EXPECT_THAT(range.high, DoubleNear(0.95, 1e-3));
}

TEST(CalibrationTest, ZerosAloneHaveARangeOfZero) {
  RangeHistogram histogram;
  histogram.Add({0, 0, 0});
  EXPECT_EQ(histogram.Percentile(99).low, 0);
  EXPECT_EQ(histogram.Percentile(99).high, 0);
}

TEST(CalibrationTest, MethodsHaveNames) {
  EXPECT_EQ(ParseCalibrationMethod("minmax")->percent, 100);
  EXPECT_EQ(ParseCalibrationMethod("percentile")->percent, 99.9);
  EXPECT_EQ(ParseCalibrationMethod("percentile=99.5")->percent, 99.5);
  for (const char* text : {"", "max", "percentile=", "percentile=0",
                           "percentile=101", "percentile=9x"}) {
    EXPECT_THAT(ParseCalibrationMethod(text),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr("expected minmax, percentile")))
        << text;
  }
}

TEST(CalibrationTest, InputsAndResultsOfAllSamplesCount) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out({b.Op("Neg", {x}, {}, {"y"})[0]});
  const auto ranges =
      Calibrate(b.net, {{Floats({1, 2})}, {Floats({-5, 0.5F})}});
  ASSERT_THAT(ranges, IsOk());
  EXPECT_EQ(ranges->at("x").low, -5);
  EXPECT_EQ(ranges->at("x").high, 2);
  EXPECT_EQ(ranges->at("y").high, 5);
}

TEST(CalibrationTest, NoSampleIsAnError) {
  EXPECT_THAT(Calibrate(SmallNet(), {}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected at least one")));
}

}  // namespace
}  // namespace nodewise
