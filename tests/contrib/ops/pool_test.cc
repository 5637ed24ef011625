#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Row(const std::vector<float>& values) {
  return MakeTensor<float>({1, 1, static_cast<int64_t>(values.size())}, values);
}

TEST(MaxPoolTest, LargestAndWhereItIs) {
  const auto both = EvaluateAll({"MaxPool", 12, {{"kernel_shape", Ints{2}}}, 2},
                                {Row({3, 1, 1, 2})});
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(ValuesOf(both->outputs[0]), ElementsAre(3, 1, 2));
  EXPECT_THAT(ValuesOf<int64_t>(both->outputs[1]), ElementsAre(0, 1, 3));
}

TEST(MaxPoolTest, NanIsTheLargest) {
  const auto y = ElementsOf({"MaxPool", 12, {{"kernel_shape", Ints{3}}}},
                            {Row({1, NAN, 2, 3, 4})});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 4);
}

// The text does not say whether a NaN is larger than a number.
TEST(MaxPoolTest, AnythingIsAllowedOfAWindowWithNan) {
  const auto y = EvaluateAll({"MaxPool", 12, {{"kernel_shape", Ints{2}}}, 2},
                             {Row({1, 2, NAN, 3, 4})}, true);
  ASSERT_THAT(y, IsOk());
  for (const Bounds& bounds : y->bounds) {
    EXPECT_THAT(bounds.proved, ElementsAre(0, INFINITY, INFINITY, 0));
    EXPECT_EQ(bounds.expected, bounds.proved);
  }
}

TEST(MaxPoolTest, CeilModeTakesTheLastWindow) {
  const NDArray x = Row({1, 2, 3, 4, 5});
  const std::vector<NamedAttr> floor = {{"kernel_shape", Ints{2}},
                                        {"strides", Ints{2}}};
  std::vector<NamedAttr> ceil = floor;
  ceil.push_back({"ceil_mode", int64_t{1}});
  EXPECT_THAT(ElementsOf({"MaxPool", 12, floor}, {x}), ElementsAre(2, 4));
  EXPECT_THAT(ElementsOf({"MaxPool", 12, ceil}, {x}), ElementsAre(2, 4, 5));
}

TEST(MaxPoolTest, ColumnsMayBeCountedFirst) {
  const auto both = EvaluateAll(
      {"MaxPool",
       12,
       {{"kernel_shape", Ints{1, 1}}, {"storage_order", int64_t{1}}},
       2},
      {MakeTensor<float>({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>(both->outputs[1]),
              ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(AveragePoolTest, PaddingCountsWhereItIsTold) {
  std::vector<NamedAttr> attrs = {{"kernel_shape", Ints{2}},
                                  {"pads", Ints{1, 0}}};
  const NDArray x = Row({2, 4});
  EXPECT_THAT(ElementsOf({"AveragePool", 19, attrs}, {x}), ElementsAre(2, 3));
  attrs.push_back({"count_include_pad", int64_t{1}});
  EXPECT_THAT(ElementsOf({"AveragePool", 19, attrs}, {x}), ElementsAre(1, 3));
}

TEST(LpPoolTest, OldOnesTakeAnyPower) {
  const std::vector<NDArray> x = {Row({3, 4})};
  EXPECT_THAT(ElementsOf({"LpPool", 18, {{"kernel_shape", Ints{2}}}}, x),
              ElementsAre(5));
  EXPECT_THAT(
      ElementsOf({"LpPool", 1, {{"kernel_shape", Ints{2}}, {"p", 1.0f}}}, x),
      ElementsAre(7));
}

TEST(GlobalPoolTest, EveryPlaneBecomesOneElement) {
  const NDArray x = MakeTensor<float>({1, 2, 1, 2}, {1, 3, -5, -3});
  EXPECT_THAT(ElementsOf({"GlobalAveragePool"}, {x}), ElementsAre(2, -4));
  EXPECT_THAT(ElementsOf({"GlobalMaxPool"}, {x}), ElementsAre(3, -3));
  EXPECT_EQ(InferredType({"GlobalMaxPool"}, {{"float32[n, c, ?, 7]"}}),
            "float32[n, c, 1, 1]");
}

TEST(PoolTest, WindowsLargerThanTheInputAreRefused) {
  EXPECT_THAT(
      EvaluateOne({"MaxPool", 12, {{"kernel_shape", Ints{3}}}}, {Row({1, 2})}),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("shorter than the window")));
}

TEST(PoolTest, HugeWindowsInPaddingEnd) {
  constexpr int64_t kHuge = int64_t{1} << 31;
  EXPECT_THAT(ElementsOf({"AveragePool",
                          19,
                          {{"kernel_shape", Ints{kHuge}},
                           {"pads", Ints{kHuge - 2, 0}}}},
                         {Row({1, 3})}),
              ElementsAre(2));
  EXPECT_THAT(ElementsOf({"MaxPool",
                          19,
                          {{"kernel_shape", Ints{kHuge}},
                           {"pads", Ints{kHuge, kHuge}},
                           {"strides", Ints{kHuge}}}},
                         {Row({3, 1})}),
              ElementsAre(-INFINITY, 3));
}

TEST(MaxUnpoolTest, IndicesOutsideAreRefused) {
  EXPECT_THAT(
      EvaluateOne(
          {"MaxUnpool", 11, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}},
          {Row({1, 2}), MakeTensor<int64_t>({1, 1, 2}, {0, 4})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("has 4")));
}

TEST(MaxRoiPoolTest, RegionsAreCutIntoBins) {
  EXPECT_THAT(ElementsOf({"MaxRoiPool", 1, {{"pooled_shape", Ints{1, 2}}}},
                         {MakeTensor<float>({1, 1, 1, 4}, {4, 1, 2, 3}),
                          MakeTensor<float>({1, 5}, {0, 0, 0, 3, 0})}),
              ElementsAre(4, 3));
}

TEST(RoiAlignTest, OldOnesCountPixelsFromTheirCorners) {
  const std::vector<NDArray> inputs = {
      MakeTensor<float>({1, 1, 1, 3}, {0, 2, 4}),
      MakeTensor<float>({1, 4}, {0, 0, 2, 1}), MakeTensor<int64_t>({1}, {0})};
  EXPECT_THAT(ElementsOf({"RoiAlign", 10}, inputs), ElementsAre(2));
  EXPECT_THAT(ElementsOf({"RoiAlign", 16}, inputs), ElementsAre(1));
}

}  // namespace
}  // namespace nodewise
