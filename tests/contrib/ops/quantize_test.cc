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

constexpr DLDataType kInt4{kDLInt, 4, 1};
constexpr DLDataType kE4M3{kDTypeE4M3, 8, 1};
constexpr DLDataType kE8M0{kDTypeE8M0, 8, 1};
constexpr DLDataType kE2M1{kDTypeE2M1, 4, 1};

TEST(QuantizeLinearTest, ShortIntegersEndWithTheirRange) {
  const auto zero = MakeTensor<int8_t>({}, {1}, kInt4);
  EXPECT_THAT(ElementsOf<int8_t>({"QuantizeLinear", 25},
                                 {Floats({1, 5, 100, -100}), Float(2), zero}),
              ElementsAre(1, 3, 7, -8));
  const OpSetup to_uint2{"QuantizeLinear", 25, {Attr("output_dtype", 25)}};
  EXPECT_THAT(ElementsOf<uint8_t>(to_uint2, {Floats({-4, 2, 9}), Float(2)}),
              ElementsAre(0, 1, 3));
}

TEST(QuantizeLinearTest, ShortFloatsAreRoundedToTheirNeighbours) {
  const auto zero = MakeTensor<uint8_t>({}, {0}, kE4M3);
  const NDArray x = Floats({2, 35, 2000, NAN});
  const auto y = EvaluateAll({"QuantizeLinear", 25}, {x, Float(2), zero}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[0]),
              ElementsAre(0x38, 0x59, 0x7E, 0x7F));
  // The steps at 1, at 18 and at 448.
  EXPECT_THAT(y->bounds[0].proved, ElementsAre(0.125, 2, 32, 0));
  const OpSetup open{"QuantizeLinear", 25, {Attr("saturate", 0)}};
  EXPECT_THAT(ElementsOf<uint8_t>(open, {x, Float(2), zero}),
              ElementsAre(0x38, 0x59, 0x7F, 0x7F));
  const OpSetup to_e2m1{"QuantizeLinear", 25, {Attr("output_dtype", 23)}};
  EXPECT_THAT(ElementsOf<uint8_t>(to_e2m1, {Floats({3, -9}), Float(2)}),
              ElementsAre(0x3, 0xE));
}

TEST(QuantizeLinearTest, ScalesMayBePowersOfTwo) {
  const auto scale = MakeTensor<uint8_t>({1, 2}, {128, 126}, kE8M0);
  const OpSetup blocks{
      "QuantizeLinear", 28, {Attr("block_size", 2), Attr("output_dtype", 23)}};
  EXPECT_THAT(ElementsOf<uint8_t>(
                  blocks, {MakeTensor<float>({1, 4}, {2, 4, 1, 3}), scale}),
              ElementsAre(0x2, 0x4, 0x4, 0x7));
  const OpSetup back{
      "DequantizeLinear", 28, {Attr("block_size", 2), Attr("output_dtype", 1)}};
  const auto y = MakeTensor<uint8_t>({1, 4}, {0x2, 0x4, 0x4, 0x7}, kE2M1);
  EXPECT_THAT(ElementsOf(back, {y, scale}), ElementsAre(2, 4, 1, 3));
  const OpSetup untold{"DequantizeLinear", 28, {Attr("block_size", 2)}};
  EXPECT_THAT(EvaluateOne(untold, {y, scale}),
              FailsWith(kInvalid, HasSubstr("output_dtype")));
}

TEST(QuantizeLinearTest, AResultOfPowersOfTwoIsRefused) {
  EXPECT_THAT(EvaluateOne({"QuantizeLinear", 28, {Attr("output_dtype", 24)}},
                          {Floats({1}), Float(1)}),
              FailsWith(kInvalid, HasSubstr("float8_e8m0fnu")));
}

TEST(DequantizeLinearTest, ShortNumbersAreScaled) {
  const auto x = MakeTensor<int8_t>({3}, {-8, 0, 7}, kInt4);
  const auto zero = MakeTensor<int8_t>({}, {1}, kInt4);
  EXPECT_THAT(ElementsOf({"DequantizeLinear", 25}, {x, Float(0.5F), zero}),
              ElementsAre(-4.5F, -0.5F, 3));
  const auto floats = MakeTensor<uint8_t>({2}, {0x38, 0xB8}, kE4M3);
  EXPECT_THAT(ElementsOf({"DequantizeLinear", 25}, {floats, Float(0.5F)}),
              ElementsAre(0.5F, -0.5F));
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

TEST(DynamicQuantizeLinearTest, NothingButZerosMayHaveAnyScale) {
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

TEST(QLinearTest, FloatsOf8BitsAreRoundedOnce) {
  // 1, 2, 3 and 4, less 1 each; by 1, -1 and 2, 0.5.
  const auto a = MakeTensor<uint8_t>({2, 2}, {0x38, 0x40, 0x44, 0x48}, kE4M3);
  const auto b = MakeTensor<uint8_t>({2, 2}, {0x38, 0xB8, 0x40, 0x30}, kE4M3);
  const auto one = MakeTensor<uint8_t>({}, {0x38}, kE4M3);
  const auto none = MakeTensor<uint8_t>({}, {0}, kE4M3);
  const std::vector<NDArray> inputs = {a,
                                       Float(2),
                                       one,
                                       b,
                                       Floats({1, 100}),
                                       MakeTensor<uint8_t>({2}, {0, 0}, kE4M3),
                                       Float(4),
                                       none};
  const auto y = EvaluateAll({"QLinearMatMul", 21}, inputs, true);
  ASSERT_THAT(y, IsOk());
  // 1, 25, 4 and -25 before they are rounded: 25 is halfway from 24 to 26.
  EXPECT_TRUE(y->outputs[0].dtype() == kE4M3);
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[0]),
              ElementsAre(0x38, 0x5C, 0x48, 0xDC));
  EXPECT_GE(y->bounds[0].proved[0], 0.125);
  std::vector<NDArray> wrong = inputs;
  wrong[7] = MakeTensor<uint8_t>({}, {127}, kE8M0);
  EXPECT_THAT(
      EvaluateOne({"QLinearMatMul", 21}, wrong),
      FailsWith(kInvalid, HasSubstr("input 7: is of type float8_e8m0")));
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
