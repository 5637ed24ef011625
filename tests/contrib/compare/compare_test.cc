#include "nodewise/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nodewise/tensors/tensor_collector.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const float kNotANumber = std::nanf("");

const TensorKey kConv{"conv"};

absl::StatusOr<TensorComparison> CompareWithBounds(
    const NDArray& expected, const NDArray& actual,
    const std::vector<double>& bounds) {
  TensorItem item{kConv};
  item.tensor = expected.tensor();
  item.proved_bounds = bounds;
  item.expected_bounds = bounds;
  return CompareTensors(item, *actual);
}

struct VerdictCase {
  const char* what;
  std::vector<float> expected, actual;
  std::vector<double> bounds;
  Verdict verdict;
  uint64_t worst;  // Element.
};

TEST(CompareTest, VerdictIsThatOfTheWorstElement) {
  const VerdictCase cases[] = {
      {"bits", {1, 2}, {1, 2}, {0, 0}, Verdict::kSame, 0},
      {"signs of zero", {0, 2}, {-0.0F, 2}, {0, 0}, Verdict::kSame, 0},
      {"NaN", {kNotANumber}, {-kNotANumber}, {0}, Verdict::kSame, 0},
      {"infinity", {kInfinite}, {kInfinite}, {0}, Verdict::kSame, 0},
      {"rounding", {1, 2}, {1, 2.5}, {0, 1}, Verdict::kWithinBound, 1},
      {"at the bound", {1, 2}, {1.5, 2}, {0.5, 0}, Verdict::kWithinBound, 0},
      {"too far", {1, 2}, {1.5, 2.5}, {1, 0.25}, Verdict::kOutsideBound, 1},
      {"exact", {1, 2, 3}, {1, 3, 5}, {0, 0, 0}, Verdict::kOutsideBound, 2},
      {"no bound", {1, 2}, {1, 9}, {0, NAN}, Verdict::kNotJudged, 1},
      {"both", {1, 2}, {9, 9}, {0, NAN}, Verdict::kOutsideBound, 0},
      {"new NaN", {1, 2}, {9, kNotANumber}, {0, 9}, Verdict::kNonFinite, 1},
      {"lost NaN", {kNotANumber}, {1}, {NAN}, Verdict::kNonFinite, 0},
      {"overflow", {1}, {kInfinite}, {9}, Verdict::kNonFinite, 0},
      {"other sign", {kInfinite}, {-kInfinite}, {9}, Verdict::kNonFinite, 0},
  };
  for (const VerdictCase& c : cases) {
    SCOPED_TRACE(c.what);
    const auto compared =
        CompareWithBounds(Floats(c.expected), Floats(c.actual), c.bounds);
    ASSERT_THAT(compared, IsOk());
    EXPECT_EQ(NameOf(compared->verdict), NameOf(c.verdict));
    EXPECT_EQ(compared->worst.element, c.worst);
  }
}

TEST(CompareTest, PlaceAndSizeOfTheWorstErrorAreTold) {
  const auto compared = CompareWithBounds(
      Floats({1, 2, 4, 8}), Floats({1, 2.5, 5, 8}), {1, 0.125, 0.5, 1});
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->elements, 4U);
  EXPECT_EQ(compared->different, 2U);
  EXPECT_EQ(compared->outside, 2U);
  // The smaller error is the larger multiple of its bound.
  EXPECT_EQ(compared->worst.element, 1U);
  EXPECT_EQ(compared->worst.expected, 2);
  EXPECT_EQ(compared->worst.actual, 2.5);
  EXPECT_EQ(ErrorOverBound(*compared), 4);
  EXPECT_EQ(compared->largest_error, 1);
}

TEST(CompareTest, AFactorOverTheWholeTensorIsMeasured) {
  const auto compared =
      CompareWithBounds(Floats({1, -2, 4}), Floats({1.5, -3, 6}), {0, 0, 0});
  ASSERT_THAT(compared, IsOk());
  EXPECT_DOUBLE_EQ(compared->scale, 1.5);
}

TEST(CompareTest, LargeIntegersDifferThoughTheirDoublesDoNot) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  const auto compared =
      CompareWithBounds(MakeTensor<int64_t>({1}, {kLarge}),
                        MakeTensor<int64_t>({1}, {kLarge + 1}), {0});
  ASSERT_THAT(compared, IsOk());
  EXPECT_EQ(compared->verdict, Verdict::kOutsideBound);
  EXPECT_EQ(compared->worst.error, 1);
}

TEST(CompareTest, OtherShapesAndTypesAreErrorsThatNameBoth) {
  EXPECT_THAT(CompareWithBounds(Floats({1, 2}), Floats({1}), {}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("conv: is float32 (1,), expected float32 "
                                  "(2,)")));
  EXPECT_THAT(
      CompareWithBounds(Floats({1}), MakeTensor<double>({1}, {1}), {}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("float64")));
}

void Put(TensorCollector* collector, const std::string& name,
         const NDArray& tensor) {
  const TensorKey key{name};
  TensorItem item{key};
  item.tensor = tensor.tensor();
  EXPECT_THAT(collector->Take(item), IsOk());
}

TEST(CompareTest, WhatOnlyOneSourceHasIsSkippedWithItsReason) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  Put(&reference, "y", Floats({1}));
  Put(&reference, "w", Floats({1}));
  Put(&candidate, "z", Floats({1}));
  Put(&candidate, "w", Floats({1, 2}));
  Put(&candidate, "x", Floats({1}));
  const auto compared = CompareSources(reference, candidate);
  ASSERT_THAT(compared, IsOk());
  ASSERT_EQ(compared->tensors.size(), 1U);
  EXPECT_EQ(compared->tensors[0].key.node, "x");
  ASSERT_EQ(compared->skipped.size(), 3U);
  EXPECT_EQ(compared->skipped[0].why, "the candidate does not have it");
  EXPECT_THAT(compared->skipped[1].why, HasSubstr("expected float32 (1,)"));
  EXPECT_EQ(compared->skipped[2].key.node, "z");
  EXPECT_EQ(compared->skipped[2].why, "the reference does not have it");
}

TEST(CompareTest, ComparingNothingIsAnError) {
  TensorCollector reference("a"), candidate("b");
  Put(&reference, "x", Floats({1}));
  EXPECT_THAT(CompareSources(reference, candidate),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("a and b: there is nothing to compare")));
}

}  // namespace
}  // namespace nodewise
