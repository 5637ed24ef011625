#include "nodewise/compare/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nodewise/ndarray/dtype.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr DLDataType kFloat16{kDLFloat, 16, 1};
constexpr uint64_t kElements = 100000;

// A tensor that Ascend's first two rules let go on to the third.
Metrics OffBy(uint64_t hundredth, uint64_t thousandth,
              uint64_t ten_thousandth) {
  Metrics metrics;
  metrics.elements = kElements;
  metrics.different = metrics.outside = ten_thousandth;
  metrics.largest_error = {0, 1, 1.001, 0.001};
  metrics.above_hundredth = hundredth;
  metrics.above_thousandth = thousandth;
  metrics.above_ten_thousandth = ten_thousandth;
  return metrics;
}

Verdict Ascend(DLDataType dtype, const Metrics& metrics) {
  return Judge({Rule::Kind::kAscend}, dtype, metrics, nullptr).verdict;
}

TEST(RulesTest, AscendsCosineComesFirst) {
  Metrics metrics = OffBy(0, 0, 0);
  metrics.largest_error.error = 0;
  metrics.cosine_distance = 0.01;
  EXPECT_EQ(Ascend(kFloat32, metrics), Verdict::kError);
  metrics.cosine_distance = 0.009;
  EXPECT_EQ(Ascend(kFloat32, metrics), Verdict::kPass);
}

TEST(RulesTest, AscendsLargestErrorEndsTheCascade) {
  Metrics metrics = OffBy(kElements, kElements, kElements);
  metrics.largest_error.error = 0.0009;
  EXPECT_EQ(Ascend(kFloat32, metrics), Verdict::kPass);
  metrics.largest_error.error = 0.001;
  EXPECT_EQ(Ascend(kFloat32, metrics), Verdict::kError);
}

TEST(RulesTest, AscendJudgesShortFloatsByHundredthsAndThousandths) {
  EXPECT_EQ(Ascend(kFloat16, OffBy(1000, 1000, 1000)), Verdict::kError);
  EXPECT_EQ(Ascend(kFloat16, OffBy(999, 999, 999)), Verdict::kWarning);
  EXPECT_EQ(Ascend(kFloat16, OffBy(99, 99, kElements)), Verdict::kPass);
}

TEST(RulesTest, AscendJudgesLongFloatsByThousandthsAndTenThousandths) {
  EXPECT_EQ(Ascend(kFloat32, OffBy(0, 100, 100)), Verdict::kError);
  EXPECT_EQ(Ascend(kFloat32, OffBy(0, 99, 99)), Verdict::kWarning);
  EXPECT_EQ(Ascend(kFloat32, OffBy(0, 9, 9)), Verdict::kPass);
}

// OFc-07
TEST(RulesTest, IntegersMustBeEqual) {
  Metrics metrics;
  metrics.elements = 10;
  metrics.different = metrics.outside = 1;
  metrics.absolute_needed = 1;
  for (const RuleName& row : AllRules()) {
    SCOPED_TRACE(row.name);
    const Judgement judged = Judge(row.rule, {kDLInt, 8, 1}, metrics, nullptr);
    EXPECT_EQ(judged.verdict, Verdict::kError);
    EXPECT_EQ(judged.reason, "1 of 10 elements not equal");
    EXPECT_EQ(judged.would_pass, "atol 1, rtol 0");
  }
}

// OFc-01, OFc-07
TEST(RulesTest, WithoutBoundsTypesJudgeAndTheReasonSaysSo) {
  Metrics metrics;
  metrics.elements = 10;
  metrics.different = 1;
  const Judgement passed = Judge({}, kFloat32, metrics, nullptr);
  EXPECT_EQ(passed.verdict, Verdict::kPass);
  EXPECT_EQ(passed.reason, "within atol 1e-05, rtol 0.0001");
  metrics.outside = 1;
  metrics.absolute_needed = 0.5;
  const Judgement failed = Judge({}, kFloat32, metrics, nullptr);
  EXPECT_EQ(failed.verdict, Verdict::kError);
  EXPECT_EQ(failed.would_pass, "atol 0.5, rtol 0.0001");
}

TEST(RulesTest, GlowsThresholdIsAbsolute) {
  const auto rule = RuleOfName("absolute");
  ASSERT_THAT(rule, IsOk());
  EXPECT_EQ(ToleranceOf(*rule, kFloat32).absolute, 1e-5);
  EXPECT_EQ(ToleranceOf(*rule, kFloat32).relative, 0);
  EXPECT_EQ(ToleranceOf(*rule, kInt64).absolute, 0);
}

TEST(RulesTest, NamesThatThereAreNotAreAnsweredWithThoseThatThereAre) {
  EXPECT_THAT(RuleOfName("exact"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("\"exact\", expected one of bounds, by-type, "
                                  "tolerance, absolute, ascend")));
}

Metrics ADifference(double scale) {
  Metrics metrics;
  metrics.elements = 1000000;
  metrics.different = 1000;
  metrics.expected_norm = 1000;
  metrics.difference_norm = 1e-4;
  metrics.scale = scale;
  return metrics;
}

TEST(RulesTest, FarMoreBeyondTheExpectedBoundThanChanceAllowsAreAWarning) {
  BoundCheck bounds;
  bounds.ratio = 0.5;
  bounds.bound = 1;
  bounds.unexpected = 3;
  EXPECT_EQ(Judge({}, kFloat32, ADifference(1), &bounds).verdict,
            Verdict::kPass);
  bounds.unexpected = 30;
  const Judgement judged = Judge({}, kFloat32, ADifference(1), &bounds);
  EXPECT_EQ(judged.verdict, Verdict::kWarning);
  EXPECT_THAT(judged.reason, HasSubstr("30 of 1,000,000 elements"));
}

TEST(RulesTest, WhereBoundsAreVagueManyUnexpectedElementsAccuse) {
  BoundCheck bounds;
  bounds.ratio = 0.5;
  bounds.bound = 1;
  bounds.allowed_norm = 500;  // Half of the values' own.
  Metrics metrics = ADifference(1);
  metrics.outside = 1000;
  metrics.difference_norm = 100;
  bounds.unexpected = 3;
  const Judgement unsure = Judge({}, kFloat32, metrics, &bounds);
  EXPECT_EQ(unsure.verdict, Verdict::kInconclusive);
  EXPECT_THAT(unsure.reason, HasSubstr("badly conditioned"));
  bounds.unexpected = 1000;
  const Judgement wrong = Judge({}, kFloat32, metrics, &bounds);
  EXPECT_EQ(wrong.verdict, Verdict::kError);
  EXPECT_THAT(wrong.reason,
              HasSubstr("1000 of 1,000,000 elements beyond what is expected"));
}

TEST(RulesTest, AFactorOnAllIsAWarningThoughEachElementIsWithinItsBound) {
  BoundCheck bounds;
  bounds.ratio = 0.5;
  bounds.bound = 1;
  bounds.alignment = 50;
  EXPECT_EQ(Judge({}, kFloat32, ADifference(1.0001), &bounds).verdict,
            Verdict::kWarning);
  // A rounded constant makes as much.
  EXPECT_EQ(Judge({}, kFloat32, ADifference(1 + 1e-7), &bounds).verdict,
            Verdict::kPass);
}

}  // namespace
}  // namespace nodewise
