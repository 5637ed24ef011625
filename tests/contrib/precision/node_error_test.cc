#include "nodewise/precision/sensitivity.h"
#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(NodeErrorTest, EveryOperationHasItsError) {
  const Network net = SmallNet();
  const std::vector<Sample> samples = {SampleOf(net, 1), SampleOf(net, 2)};
  Network lowered = net;
  const PrecisionReport report = LowerTo(Int8Of(net, samples), lowered);
  const auto errors = MeasureErrors(net, lowered, report, samples);
  ASSERT_THAT(errors, IsOk());
  ASSERT_EQ(errors->size(), 6);
  for (const ValueError& error : *errors) {
    EXPECT_GT(error.relative_l2, 0) << error.operation;
    EXPECT_LT(error.relative_l2, 0.05) << error.operation;
    EXPECT_GT(error.max_abs, 0) << error.operation;
  }
  EXPECT_EQ((*errors)[5].operation, "soft");
  EXPECT_EQ((*errors)[5].value, "y");
}

TEST(NodeErrorTest, WhatIsNotLoweredHasNoErrorOfItsOwn) {
  const Network net = SmallNet();
  Network lowered = net;
  const PrecisionReport report = LowerTo({.keep = "."}, lowered);
  const auto errors = MeasureErrors(net, lowered, report, {SampleOf(net)});
  ASSERT_THAT(errors, IsOk());
  for (const ValueError& error : *errors) EXPECT_EQ(error.max_abs, 0);
}

TEST(NodeErrorTest, EqualInfinitiesAreNotAnError) {
  const NDArray expected = Floats({1, -INFINITY, NAN});
  EXPECT_EQ(OutputError({{expected}}, {{expected}}), 0);
}

TEST(NodeErrorTest, ADifferenceThatIsNotANumberIsInfinite) {
  EXPECT_EQ(OutputError({{Floats({1, 2})}}, {{Floats({1, NAN})}}), INFINITY);
}

TEST(NodeErrorTest, TheWorstOutputCounts) {
  EXPECT_DOUBLE_EQ(OutputError({{Floats({4}), Floats({100})}},
                               {{Floats({5}), Floats({101})}}),
                   0.25);
}

TEST(NodeErrorTest, NoSampleIsAnError) {
  const Network net = SmallNet();
  EXPECT_THAT(MeasureErrors(net, net, {}, {}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected at least one")));
}

}  // namespace
}  // namespace nodewise
