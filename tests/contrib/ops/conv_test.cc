#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Row(const std::vector<float>& values) {
  return MakeTensor<float>({1, 1, static_cast<int64_t>(values.size())}, values);
}

TEST(ConvTest, WindowsStepOverPaddedInputs) {
  const NDArray x = Row({1, 2, 3, 4, 5});
  const NDArray w = Row({1, 10, 100});
  EXPECT_THAT(ElementsOf({"Conv"}, {x, w}), ElementsAre(321, 432, 543));
  EXPECT_THAT(
      ElementsOf({"Conv", 11, {{"pads", Ints{1, 0}}, {"strides", Ints{2}}}},
                 {x, w, Floats({1})}),
      ElementsAre(211, 433));
  EXPECT_THAT(ElementsOf({"Conv", 11, {{"dilations", Ints{2}}}}, {x, w}),
              ElementsAre(531));
}

TEST(ConvTest, GroupsSeeTheirOwnChannels) {
  const NDArray x = MakeTensor<float>({1, 2, 2}, {1, 2, 3, 4});
  const NDArray w = MakeTensor<float>({2, 1, 1}, {10, 100});
  EXPECT_THAT(ElementsOf({"Conv", 11, {{"group", int64_t{2}}}}, {x, w}),
              ElementsAre(10, 20, 300, 400));
}

TEST(ConvTest, SamePaddingGoesWhereItIsTold) {
  const NDArray x = Row({1, 2, 3, 4});
  const NDArray w = Row({1, 10});
  const auto with = [&](const char* where) {
    return ElementsOf({"Conv", 11, {{"auto_pad", std::string(where)}}}, {x, w});
  };
  EXPECT_THAT(with("SAME_UPPER"), ElementsAre(21, 32, 43, 4));
  EXPECT_THAT(with("SAME_LOWER"), ElementsAre(10, 21, 32, 43));
}

TEST(ConvTest, UnknownSidesStayUnknown) {
  EXPECT_EQ(InferredType({"Conv", 11, {{"pads", Ints{1, 1, 1, 1}}}},
                         {{"float32[n, 3, ?, 8]"}, {"float32[4, 3, 3, 3]"}}),
            "float32[n, 4, ?, 8]");
}

TEST(ConvTest, HostileAttributesAreRefused) {
  const std::vector<NDArray> inputs = {Row({1, 2}), Row({1})};
  const auto with = [&](const char* name, AttrValue value) {
    return EvaluateOne({"Conv", 11, {{name, std::move(value)}}}, inputs);
  };
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    EXPECT_FALSE(with("strides", Ints{bad}).ok()) << bad;
    EXPECT_FALSE(with("dilations", Ints{bad}).ok()) << bad;
    EXPECT_FALSE(with("kernel_shape", Ints{bad}).ok()) << bad;
    EXPECT_FALSE(with("group", bad).ok()) << bad;
  }
  EXPECT_FALSE(with("pads", Ints{-1, 0}).ok());
  EXPECT_FALSE(with("pads", Ints{1}).ok());
}

TEST(ConvTest, ChannelsThatDoNotFitAreNamed) {
  EXPECT_THAT(InferOf({"Conv"}, {{"float32[1, 3, 5]"}, {"float32[2, 4, 3]"}}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 3 channels, expected 4")));
}

TEST(ConvIntegerTest, PaddingIsTheZeroPoint) {
  const auto y = ElementsOf<int32_t>(
      {"ConvInteger", 10, {{"pads", Ints{1, 0}}}},
      {MakeTensor<uint8_t>({1, 1, 2}, {3, 5}),
       MakeTensor<uint8_t>({1, 1, 2}, {1, 2}), MakeTensor<uint8_t>({}, {1})});
  EXPECT_THAT(y, ElementsAre(4, 10));
}

TEST(ConvTransposeTest, StridesSpreadTheInput) {
  EXPECT_THAT(ElementsOf({"ConvTranspose", 11, {{"strides", Ints{2}}}},
                         {Row({1, 2}), Row({1, 10, 100})}),
              ElementsAre(1, 10, 102, 20, 200));
}

TEST(ConvTransposeTest, OutputShapeDecidesThePads) {
  EXPECT_THAT(ElementsOf({"ConvTranspose",
                          11,
                          {{"strides", Ints{2}}, {"output_shape", Ints{4}}}},
                         {Row({1, 2}), Row({1, 10, 100})}),
              ElementsAre(10, 102, 20, 200));
}

TEST(DeformConvTest, OffsetsMoveTheTaps) {
  const auto y =
      ElementsOf({"DeformConv", 19},
                 {MakeTensor<float>({1, 1, 1, 3}, {1, 2, 4}),
                  MakeTensor<float>({1, 1, 1, 1}, {1}),
                  MakeTensor<float>({1, 2, 1, 3}, {0, 0, 0, 0.5f, 0, 0.5f})});
  EXPECT_THAT(y, ElementsAre(1.5f, 2, 2));
}

}  // namespace
}  // namespace nodewise
