#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Byte(uint8_t value) { return MakeTensor<uint8_t>({}, {value}); }
NDArray Bytes(const std::vector<int64_t>& shape,
              const std::vector<uint8_t>& values) {
  return MakeTensor<uint8_t>(shape, values);
}

// OV-37.
TEST(QuantizeLinearTest, TiesGoToEvenAndEndsSaturate) {
  EXPECT_THAT(ElementsOf<uint8_t>(
                  {"QuantizeLinear", 13},
                  {Floats({1, 3, -1, 1000, -1000, NAN}), Float(2), Byte(10)}),
              ElementsAre(10, 12, 10, 255, 0, 0));
}

TEST(QuantizeLinearTest, EveryChannelHasItsScale) {
  const auto x = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  const auto zeros = MakeTensor<int8_t>({2}, {0, 1});
  EXPECT_THAT(ElementsOf<int8_t>({"QuantizeLinear", 13, {Attr("axis", 0)}},
                                 {x, Floats({1, 0.5F}), zeros}),
              ElementsAre(1, 2, 7, 9));
}

TEST(QuantizeLinearTest, BlocksHaveTheirScales) {
  const auto x = MakeTensor<float>({1, 3}, {1, 2, 3});
  const auto scale = MakeTensor<float>({1, 2}, {1, 3});
  const OpSetup blocks{
      "QuantizeLinear", 21, {Attr("axis", 1), Attr("block_size", 2)}};
  EXPECT_THAT(ElementsOf<uint8_t>(blocks, {x, scale}), ElementsAre(1, 2, 1));
}

TEST(QuantizeLinearTest, TheTypeMayBeToldInstead) {
  const OpSetup told{"QuantizeLinear", 21, {Attr("output_dtype", 5)}};
  EXPECT_THAT(ElementsOf<int16_t>(told, {Floats({40000, -3}), Float(1)}),
              ElementsAre(32767, -3));
  EXPECT_THAT(EvaluateOne(told, {Floats({1}), Float(1), Byte(0)}),
              FailsWith(kInvalid, HasSubstr("output_dtype")));
}

TEST(QuantizeLinearTest, ScalesThatDoNotFitAreRefused) {
  EXPECT_THAT(
      EvaluateOne({"QuantizeLinear", 13}, {Floats({1, 2}), Floats({1, 2, 3})}),
      FailsWith(kInvalid, HasSubstr("has 3 elements, expected 2")));
  const auto scale = MakeTensor<float>({1, 1}, {1});
  EXPECT_FALSE(EvaluateOne({"QuantizeLinear", 21},
                           {MakeTensor<float>({1, 3}, {1, 2, 3}), scale})
                   .ok());
}

// OV-37.
TEST(DequantizeLinearTest, TheZeroPointIsTakenAwayFirst) {
  EXPECT_THAT(ElementsOf({"DequantizeLinear", 13},
                         {Bytes({3}, {0, 128, 255}), Float(0.5F), Byte(128)}),
              ElementsAre(-64, 0, 63.5F));
  const auto wide = MakeTensor<int32_t>({1}, {-7});
  EXPECT_THAT(ElementsOf({"DequantizeLinear", 13}, {wide, Float(2)}),
              ElementsAre(-14));
}

TEST(DynamicQuantizeLinearTest, TheRangeHoldsZero) {
  const auto y = EvaluateAll({"DynamicQuantizeLinear", 11, {}, 3},
                             {Floats({0, 2, -3, -2.5F, 1.34F, 0.5F})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[0]),
              ElementsAre(153, 255, 0, 26, 221, 179));
  EXPECT_THAT(ValuesOf(y->outputs[1]), ElementsAre(5.0F / 255));
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[2]), ElementsAre(153));
}

TEST(DynamicQuantizeLinearTest, NothingButZerosIsNoDivision) {
  const auto y =
      EvaluateAll({"DynamicQuantizeLinear", 11, {}, 3}, {Floats({0, 0})}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[0]), ElementsAre(0, 0));
  EXPECT_THAT(ValuesOf(y->outputs[1]), ElementsAre(0));
  // 0 / 0 has no integer, and kernels take a scale of 1, or of 1 / 255.
  EXPECT_THAT(y->bounds[0].proved, ElementsAre(INFINITY, INFINITY));
  EXPECT_THAT(y->bounds[1].proved, ElementsAre(1));
  EXPECT_THAT(y->bounds[2].proved, ElementsAre(INFINITY));
}

// The expected values are onnxruntime's.
TEST(QLinearTest, MatrixProducts) {
  EXPECT_THAT(ElementsOf<uint8_t>(
                  {"QLinearMatMul", 10},
                  {Bytes({2, 2}, {208, 236, 3, 214}), Float(0.0066F), Byte(113),
                   Bytes({2, 2}, {152, 51, 60, 26}), Float(0.00705F), Byte(114),
                   Float(0.0107F), Byte(118)}),
              ElementsAre(105, 45, 76, 109));
}

TEST(QLinearTest, ConvolutionsByChannel) {
  EXPECT_THAT(
      ElementsOf<uint8_t>(
          {"QLinearConv", 10},
          {Bytes({1, 1, 2, 2}, {255, 174, 162, 25}), Float(0.00369F), Byte(132),
           Bytes({2, 1, 1, 1}, {0, 7}), Floats({0.00172F, 0.01F}),
           Bytes({2}, {255, 3}), Float(0.00162F), Byte(123)}),
      ElementsAre(0, 81, 93, 230, 134, 127, 126, 113));
}

TEST(QLinearTest, ResultsAreBoundByOneStep) {
  const auto y =
      EvaluateAll({"QLinearMatMul", 10},
                  {Bytes({1, 1}, {2}), Float(1), Byte(0), Bytes({1, 1}, {3}),
                   Float(1), Byte(0), Float(1), Byte(0)},
                  true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->bounds[0].proved, ElementsAre(1));
}

// OV-37.
TEST(FakeQuantizeTest, NumbersAreThoseThatAreLeft) {
  const OperatorDef* const def =
      AllOperators().Find("nodewise", "FakeQuantize", 1);
  ASSERT_NE(def, nullptr);
  const auto attrs = MakeAttrs(*def, {});
  ASSERT_THAT(attrs, IsOk());
  const auto y = Evaluate(
      *attrs, {Floats({0.3F, 1000, -5}), Float(0.5F), Byte(10)}, {true});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]), ElementsAre(0.5F, 122.5F, -5));
}

}  // namespace
}  // namespace nodewise
