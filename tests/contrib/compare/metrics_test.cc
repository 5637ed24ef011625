#include "nodewise/compare/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "contrib/compare/metric_loops.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/thread_pool.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DLDataType kHalfType{kDLFloat, 16, 1};
constexpr DLDataType kBfloatType{kDLBfloat, 16, 1};

Metrics Measured(const NDArray& expected, const NDArray& actual,
                 Tolerance tolerance = {}) {
  const auto metrics = MeasureDifference(*expected, *actual, tolerance);
  EXPECT_THAT(metrics, IsOk());
  return metrics.ok() ? *metrics : Metrics();
}

std::vector<double> Decoded(const NDArray& tensor) {
  std::vector<double> values(
      static_cast<size_t>(NumElements(tensor.shape()).value()));
  EXPECT_TRUE(DecodeToDoubles(tensor.dtype(), tensor.data(), values.size(),
                              values.data()));
  return values;
}

// The definitions, one element after the other.
void ExpectByTheBook(const NDArray& expected, const NDArray& actual,
                     Tolerance tolerance) {
  const std::vector<double> x = Decoded(expected), y = Decoded(actual);
  const Metrics found = Measured(expected, actual, tolerance);
  uint64_t different = 0, hundredth = 0, thousandth = 0, outside = 0;
  double largest = 0, relative = 0, xx = 0, yy = 0, xy = 0, dd = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(y[i] - x[i]), size = std::fabs(x[i]);
    different += error > 0 ? 1 : 0;
    hundredth += error > 0.01 * size ? 1 : 0;
    thousandth += error > 0.001 * size ? 1 : 0;
    outside += error > tolerance.absolute + tolerance.relative * size ? 1 : 0;
    largest = std::max(largest, error);
    if (size > 0) relative = std::max(relative, error / size);
    xx += x[i] * x[i], yy += y[i] * y[i], xy += x[i] * y[i];
    dd += error * error;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_EQ(found.elements, x.size());
  EXPECT_EQ(found.different, different);
  EXPECT_NEAR(found.above_hundredth, hundredth, 1 + 1e-3 * n);
  EXPECT_NEAR(found.above_thousandth, thousandth, 1 + 1e-3 * n);
  EXPECT_NEAR(found.outside, outside, 1 + 1e-3 * n);
  EXPECT_NEAR(found.largest_error.error, largest, 1e-6 * largest);
  if (different > 0) {
    const uint64_t at = found.largest_error.element;
    EXPECT_EQ(found.largest_error.expected, x[at]);
    EXPECT_EQ(found.largest_error.actual, y[at]);
  }
  EXPECT_NEAR(found.relative_error(), relative, 3e-6 * relative);
  EXPECT_NEAR(found.rmse, std::sqrt(dd / n), 1e-5 * std::sqrt(dd / n));
  EXPECT_NEAR(found.expected_norm, std::sqrt(xx), 1e-5 * std::sqrt(xx));
  EXPECT_NEAR(found.cosine(), xy / std::sqrt(xx * yy), 1e-6);
}

NDArray Drawn(std::mt19937* random, size_t count, DLDataType dtype) {
  std::vector<uint8_t> bytes(count * ElementBytes(dtype));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  NDArray tensor =
      NDArray::Empty({static_cast<int64_t>(count)}, dtype, kCpu).value();
  std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

// Floats between 0.5 and 2 in the type's bits, so that nothing is NaN.
NDArray DrawnFloats(std::mt19937* random, size_t count, DLDataType dtype) {
  NDArray tensor = Drawn(random, count, dtype);
  std::uniform_real_distribution<double> draw(-2, 2);
  for (size_t i = 0; i < count; ++i) {
    const double x = draw(*random);
    if (dtype == kHalfType) tensor.As<uint16_t>()[i] = DoubleToHalf(x);
    if (dtype == kBfloatType) {
      tensor.As<uint16_t>()[i] = FloatToBfloat(static_cast<float>(x));
    }
    if (dtype == kFloat32) tensor.As<float>()[i] = static_cast<float>(x);
    if (dtype.bits == 64) tensor.As<double>()[i] = x;
  }
  return tensor;
}

TEST(MetricsTest, EveryTypeIsMeasuredByTheBook) {
  std::mt19937 random(1);
  const DLDataType floats[] = {
      kFloat32, {kDLFloat, 64, 1}, kHalfType, kBfloatType};
  const DLDataType integers[] = {
      {kDLInt, 8, 1},  {kDLUInt, 8, 1},  {kDLInt, 16, 1}, {kDLUInt, 16, 1},
      {kDLInt, 32, 1}, {kDLUInt, 32, 1}, {kDLInt, 64, 1}, kBool};
  for (const size_t count : {1, 7, 1024, 5000}) {
    for (const DLDataType dtype : floats) {
      SCOPED_TRACE(ToString(dtype) + " " + std::to_string(count));
      ExpectByTheBook(DrawnFloats(&random, count, dtype),
                      DrawnFloats(&random, count, dtype), {0.5, 0.25});
    }
    for (const DLDataType dtype : integers) {
      SCOPED_TRACE(ToString(dtype) + " " + std::to_string(count));
      ExpectByTheBook(Drawn(&random, count, dtype),
                      Drawn(&random, count, dtype), {3, 0});
    }
  }
}

// What is large enough for the full comparison comes and goes.
TEST(MetricsTest, BlocksWithSmallAndLargeErrorsAreMeasuredByTheBook) {
  std::mt19937 random(6);
  std::vector<float> expected, actual;
  for (size_t i = 0; i < 20 * metric_loops::kBlock; ++i) {
    const auto value = static_cast<float>(random() % 1000 + 1);
    const bool is_large = i / metric_loops::kBlock % 3 == 1;
    const bool is_off = i / metric_loops::kBlock % 4 != 3;
    expected.push_back(value);
    actual.push_back(is_off ? value * (is_large ? 1.02F : 1.00001F) : value);
  }
  ExpectByTheBook(Floats(expected), Floats(actual), {0.5, 0.001});
}

TEST(MetricsTest, TypesMayDiffer) {
  std::mt19937 random(2);
  ExpectByTheBook(DrawnFloats(&random, 3000, kFloat32),
                  DrawnFloats(&random, 3000, kHalfType), {});
  ExpectByTheBook(DrawnFloats(&random, 3000, {kDLFloat, 64, 1}),
                  DrawnFloats(&random, 3000, kFloat32), {});
}

TEST(MetricsTest, TensorsMayLieAnywhere) {
  std::mt19937 random(3);
  const NDArray x = DrawnFloats(&random, 3000, kFloat32);
  const NDArray y = DrawnFloats(&random, 3000, kFloat32);
  ExpectByTheBook(CopyAtOffset(x, 1), CopyAtOffset(y, 3), {});
}

TEST(MetricsTest, EqualTensorsDifferInNothing) {
  const NDArray x = Floats({1, -2, 0, NAN, INFINITY});
  const Metrics found = Measured(x, Floats({1, -2, -0.0F, -NAN, INFINITY}));
  EXPECT_EQ(found.elements, 5U);
  EXPECT_EQ(found.different, 0U);
  EXPECT_EQ(found.non_finite(), 0U);
  EXPECT_EQ(found.largest_error.error, 0);
  EXPECT_EQ(found.cosine_distance, 0);
  EXPECT_EQ(found.snr_db(), kInf);
  EXPECT_EQ(found.scale, 1);
}

TEST(MetricsTest, NoElementsDifferInNothing) {
  const Metrics found = Measured(Floats({}), Floats({}));
  EXPECT_EQ(found.elements, 0U);
  EXPECT_EQ(found.rmse, 0);
}

TEST(MetricsTest, NanAndInfinityOnOneSideAreMismatches) {
  std::vector<float> expected(3000, 1), actual(3000, 1);
  expected[10] = NAN;
  actual[2000] = NAN;
  actual[2001] = INFINITY;
  expected[2002] = INFINITY, actual[2002] = -INFINITY;
  expected[2003] = actual[2003] = NAN;
  actual[5] = 2;
  const Metrics found = Measured(Floats(expected), Floats(actual));
  EXPECT_EQ(found.nan_mismatches, 2U);
  EXPECT_EQ(found.infinity_mismatches, 2U);
  EXPECT_EQ(found.first_non_finite.element, 10U);
  EXPECT_EQ(found.different, 5U);
  EXPECT_EQ(found.outside, 5U);
  // They do not hide how large the other errors are.
  EXPECT_EQ(found.largest_error.element, 5U);
  EXPECT_EQ(found.largest_error.error, 1);
  EXPECT_NEAR(found.rmse, std::sqrt(1.0 / 2996), 1e-9);
}

TEST(MetricsTest, FlushedSubnormalsAreCounted) {
  const float tiny = 1e-39F;
  const Metrics found = Measured(Floats({tiny, tiny, 1e-37F, 0, -tiny}),
                                 Floats({0, tiny, 0, tiny, -0.0F}));
  EXPECT_EQ(found.flushed, 2U);
  EXPECT_EQ(found.different, 4U);
}

TEST(MetricsTest, VerySmallAndVeryLargeNumbersKeepTheirErrors) {
  for (const double size : {1e-30, 1e-38, 1e25, 3e38}) {
    SCOPED_TRACE(size);
    const auto x = static_cast<float>(size);
    const std::vector<float> expected(2000, x);
    std::vector<float> actual(2000, x);
    actual[1500] = x / 2;
    const Metrics found = Measured(Floats(expected), Floats(actual));
    EXPECT_EQ(found.largest_error.element, 1500U);
    EXPECT_NEAR(found.rmse / (size / 2), std::sqrt(1.0 / 2000), 1e-6);
  }
}

TEST(MetricsTest, SmallAnglesAreNotLostInRounding) {
  std::vector<float> expected, actual;
  for (int i = 0; i < 4096; ++i) {
    expected.push_back(i % 2 == 0 ? 1 : 2);
    actual.push_back(i % 2 == 0 ? 1.00001F : 2);
  }
  const Metrics found = Measured(Floats(expected), Floats(actual));
  // For small angles 1 - cos is half the squared sine.
  const double step = double{1.00001F} - 1;
  EXPECT_NEAR(found.cosine_distance / (step * step * 0.5 * 4 / 25), 1, 1e-3);
}

TEST(MetricsTest, AFactorIsMeasured) {
  const Metrics found = Measured(Floats({1, -2, 4}), Floats({1.5, -3, 6}));
  EXPECT_DOUBLE_EQ(found.scale, 1.5);
  EXPECT_NEAR(found.cosine_distance, 0, 1e-7);
}

TEST(MetricsTest, WhatIsExpectedToBeZeroHasNoRelativeError) {
  const Metrics found = Measured(Floats({0, 4}), Floats({1, 5}));
  EXPECT_EQ(found.largest_relative.element, 1U);
  EXPECT_EQ(found.relative_error(), 0.25);
  EXPECT_EQ(found.above_hundredth, 2U);
}

TEST(MetricsTest, TheAbsolutePartThatWouldHavePassedIsTold) {
  const Metrics found =
      Measured(Floats({1, 100}), Floats({1.5, 101}), {0.25, 0.005});
  EXPECT_EQ(found.outside, 2U);
  EXPECT_EQ(found.largest_excess.element, 1U);
  EXPECT_NEAR(found.absolute_needed, 0.5, 1e-6);
}

TEST(MetricsTest, LargeIntegersDifferThoughTheirDoublesDoNot) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  const Metrics found =
      Measured(MakeTensor<int64_t>({2}, {kLarge, INT64_MIN}),
               MakeTensor<int64_t>({2}, {kLarge + 1, INT64_MAX}));
  EXPECT_EQ(found.different, 2U);
  EXPECT_EQ(found.largest_error.element, 1U);
  EXPECT_EQ(found.largest_error.error, 0x1p64);
}

TEST(MetricsTest, ResultsDoNotDependOnTheNumberOfThreads) {
  std::mt19937 random(4);
  const size_t count = 500001;
  const NDArray x = DrawnFloats(&random, count, kFloat32);
  const NDArray y = DrawnFloats(&random, count, kFloat32);
  SetNumThreads(1);
  const Metrics one = Measured(x, y, {0.1, 0.1});
  SetNumThreads(3);
  const Metrics three = Measured(x, y, {0.1, 0.1});
  SetNumThreads(0);
  EXPECT_EQ(one.rmse, three.rmse);
  EXPECT_EQ(one.cosine_distance, three.cosine_distance);
  EXPECT_EQ(one.outside, three.outside);
  EXPECT_EQ(one.largest_relative.element, three.largest_relative.element);
}

template <typename Number>
void ExpectEqualBits(const metric_loops::BlockSums<Number>& a,
                     const metric_loops::BlockSums<Number>& b) {
  EXPECT_EQ(a.squares, b.squares);
  EXPECT_EQ(a.products, b.products);
  EXPECT_EQ(a.differences, b.differences);
  EXPECT_EQ(a.largest_error, b.largest_error);
  EXPECT_EQ(a.largest_excess, b.largest_excess);
  EXPECT_EQ(a.beats_relative, b.beats_relative);
  EXPECT_EQ(a.different, b.different);
  EXPECT_EQ(a.outside, b.outside);
  EXPECT_EQ(a.flushed, b.flushed);
  EXPECT_EQ(a.above_hundredth, b.above_hundredth);
  EXPECT_EQ(a.above_thousandth, b.above_thousandth);
  EXPECT_EQ(a.above_ten_thousandth, b.above_ten_thousandth);
}

TEST(MetricLoopsTest, LevelsAgreeBitForBit) {
  std::mt19937 random(5);
  const NDArray x = DrawnFloats(&random, metric_loops::kBlock, kFloat32);
  const NDArray y = DrawnFloats(&random, metric_loops::kBlock, kFloat32);
  const NDArray wide_x =
      DrawnFloats(&random, metric_loops::kBlock, {kDLFloat, 64, 1});
  const NDArray wide_y =
      DrawnFloats(&random, metric_loops::kBlock, {kDLFloat, 64, 1});
  const metric_loops::Level& baseline = metric_loops::AllLevels().back();
  for (const metric_loops::Level& level : metric_loops::AllLevels()) {
    if (!level.works_here()) continue;
    SCOPED_TRACE(level.name);
    const auto& [floats, doubles] = level.loops;
    const auto& [their_floats, their_doubles] = baseline.loops;
    metric_loops::BlockSums<float> a, b;
    their_floats.compare(x.data(), y.data(), {0.1F, 0.2F, 0.3F, 1}, &a);
    floats.compare(x.data(), y.data(), {0.1F, 0.2F, 0.3F, 1}, &b);
    ExpectEqualBits(a, b);
    metric_loops::BlockSums<double> c, d;
    their_doubles.compare(wide_x.data(), wide_y.data(), {1, 2, 3, 1}, &c);
    doubles.compare(wide_x.data(), wide_y.data(), {1, 2, 3, 1}, &d);
    ExpectEqualBits(c, d);
    floats.compare_quickly(x.data(), y.data(), {0.1F, 0.2F, 0.3F, 1}, &b);
    EXPECT_TRUE(b.beats_relative);
    EXPECT_EQ(a.products, b.products);
    EXPECT_EQ(a.largest_excess, b.largest_excess);
    EXPECT_EQ(floats.square(x.data()), a.squares);
    EXPECT_EQ(doubles.square(wide_x.data()), c.squares);
  }
}

TEST(MetricLoopsTest, EveryHalfIsConvertedAtEveryLevel) {
  std::vector<uint16_t> halves(metric_loops::kBlock);
  std::vector<float> floats(metric_loops::kBlock);
  for (const metric_loops::Level& level : metric_loops::AllLevels()) {
    if (!level.works_here()) continue;
    for (uint32_t first = 0; first < 0x10000; first += metric_loops::kBlock) {
      for (uint32_t i = 0; i < metric_loops::kBlock; ++i) {
        halves[i] = static_cast<uint16_t>(first + i);
      }
      level.converters[ElementIndex(kHalfType)](halves.data(), floats.data());
      for (uint32_t i = 0; i < metric_loops::kBlock; ++i) {
        const float expected = HalfToFloat(halves[i]);
        EXPECT_TRUE(floats[i] == expected ||
                    (std::isnan(floats[i]) && std::isnan(expected)));
      }
    }
  }
}

TEST(MetricsTest, OtherShapesAndTypesWithoutNumbersAreErrors) {
  EXPECT_THAT(MeasureDifference(*Floats({1}), *Floats({1, 2})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("is float32 (2,), expected float32 (1,)")));
  const NDArray handles =
      MakeTensor<uint64_t>({1}, {1}, {kDLOpaqueHandle, 64, 1});
  EXPECT_THAT(MeasureDifference(*handles, *handles),
              FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("handle")));
}

}  // namespace
}  // namespace nodewise
