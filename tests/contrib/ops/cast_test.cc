#include <cmath>

#include "nodewise/ndarray/elements.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ONNX's numbers of element types.
enum OnnxNumber : int64_t {
  kOnnxFloat = 1,
  kOnnxUint8 = 2,
  kOnnxInt8 = 3,
  kOnnxBool = 9,
  kOnnxE4M3 = 17,
  kOnnxE5M2 = 19,
  kOnnxUint4 = 21,
  kOnnxInt4 = 22,
  kOnnxE2M1 = 23,
  kOnnxE8M0 = 24,
  kOnnxUint2 = 25,
  kOnnxInt2 = 26,
};

constexpr DLDataType kInt4{kDLInt, 4, 1};
constexpr DLDataType kE8M0{kDTypeE8M0, 8, 1};

OpSetup CastTo(OnnxNumber to) { return {"Cast", 25, {Attr("to", to)}}; }

NDArray Fours(const std::vector<int8_t>& values) {
  return MakeTensor<int8_t>({static_cast<int64_t>(values.size())}, values,
                            kInt4);
}

TEST(ShortCastTest, FloatsAreCutOffToShortIntegers) {
  EXPECT_THAT(
      ElementsOf<int8_t>(CastTo(kOnnxInt4), {Floats({-1.9F, 6.9F, kNan})}),
      ElementsAre(-1, 6, 0));
  EXPECT_THAT(
      ElementsOf<uint8_t>(CastTo(kOnnxUint2), {Floats({0.9F, 1.9F, 3.5F})}),
      ElementsAre(0, 1, 3));
  // As ONNX's own cases have it.
  EXPECT_THAT(ElementsOf<int8_t>(CastTo(kOnnxInt4), {Floats({-9, 100, 8})}),
              ElementsAre(7, 4, -8));
}

TEST(ShortCastTest, IntegersDropUpperBits) {
  const auto x = MakeTensor<int32_t>({4}, {17, -1, 8, 3});
  EXPECT_THAT(ElementsOf<int8_t>(CastTo(kOnnxInt4), {x}),
              ElementsAre(1, -1, -8, 3));
  EXPECT_THAT(ElementsOf<int8_t>(CastTo(kOnnxUint4), {x}),
              ElementsAre(1, 15, 8, 3));
  EXPECT_THAT(ElementsOf<int8_t>(CastTo(kOnnxInt2), {x}),
              ElementsAre(1, -1, 0, -1));
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxUint8), {Fours({-1, 7})}),
              ElementsAre(255, 7));
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxUint4), {Fours({-1, 7})}),
              ElementsAre(15, 7));
}

TEST(ShortCastTest, ShortIntegersAreNumbers) {
  EXPECT_THAT(ElementsOf(CastTo(kOnnxFloat), {Fours({-8, 0, 7})}),
              ElementsAre(-8, 0, 7));
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxBool), {Fours({-8, 0, 7})}),
              ElementsAre(1, 0, 1));
}

TEST(ShortCastTest, SaturationIsAnAttribute) {
  const NDArray x = Floats({1, 1000, -1e9F, kInf});
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxE4M3), {x}),
              ElementsAre(0x38, 0x7E, 0xFE, 0x7E));
  const OpSetup open{"Cast", 25, {Attr("to", kOnnxE4M3), Attr("saturate", 0)}};
  EXPECT_THAT(ElementsOf<uint8_t>(open, {x}),
              ElementsAre(0x38, 0x7F, 0xFF, 0x7F));
  const OpSetup like{"CastLike", 25, {Attr("saturate", 0)}};
  const NDArray target =
      MakeTensor<uint8_t>({}, {0}, DLDataType{kDTypeE5M2, 8, 1});
  EXPECT_THAT(ElementsOf<uint8_t>(like, {x, target}),
              ElementsAre(0x3C, 0x64, 0xFC, 0x7C));
}

TEST(ShortCastTest, IntegersAndBoolsBecomeShortFloats) {
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxE4M3), {Longs({1, -2, 17})}),
              ElementsAre(0x38, 0xC0, 0x58));
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxE2M1), {Fours({1, -2, 7})}),
              ElementsAre(0x2, 0xC, 0x7));
  const auto bools = MakeTensor<uint8_t>({2}, {1, 0}, kBool);
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxE5M2), {bools}),
              ElementsAre(0x3C, 0));
}

TEST(ShortCastTest, PowersAreRoundedAsTold) {
  const NDArray x = Floats({6, 5, 0});
  const auto rounded = [&](const char* mode) {
    return ElementsOf<uint8_t>(
        {"Cast", 25, {Attr("to", kOnnxE8M0), Word("round_mode", mode)}}, {x});
  };
  EXPECT_THAT(rounded("up"), ElementsAre(130, 130, 0));
  EXPECT_THAT(rounded("down"), ElementsAre(129, 129, 0));
  EXPECT_THAT(rounded("nearest"), ElementsAre(130, 129, 0));
}

TEST(ShortCastTest, WhatHasNoSignMayBecomeAnythingOfNegativeNumbers) {
  const auto y =
      EvaluateAll(CastTo(kOnnxE8M0), {Floats({2, -2, -0.0F, kNan})}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->bounds[0].proved, ElementsAre(0, kInf, kInf, 0));
}

TEST(ShortCastTest, ShortFloatsBecomeOneAnother) {
  const auto x = MakeTensor<uint8_t>({3}, {127, 128, 255}, kE8M0);
  EXPECT_THAT(ElementsOf(CastTo(kOnnxFloat), {x}),
              ElementsAre(1, 2, testing::IsNan()));
  EXPECT_THAT(ElementsOf<uint8_t>(CastTo(kOnnxE4M3), {x}),
              ElementsAre(0x38, 0x40, 0x7F));
}

TEST(ShortCastTest, BitsOfShortIntegersKeepTheirWidth) {
  const OpSetup bits{"BitCast", 26, {Attr("to", kOnnxUint4)}};
  EXPECT_THAT(ElementsOf<uint8_t>(bits, {Fours({-1, 3})}), ElementsAre(15, 3));
  EXPECT_THAT(
      EvaluateOne({"BitCast", 26, {Attr("to", kOnnxInt8)}}, {Fours({1})}),
      FailsWith(kInvalid, HasSubstr("as wide as")));
}

// Operators that only move elements take them too.
TEST(ShortElementsTest, AreMoved) {
  const NDArray x = Fours({1, -2, 3, -4});
  const auto matrix = EvaluateOne({"Reshape", 25}, {x, Longs({2, 2})});
  ASSERT_THAT(matrix, IsOk());
  EXPECT_TRUE(matrix->dtype() == kInt4);
  EXPECT_THAT(ElementsOf<int8_t>({"Transpose", 25}, {*matrix}),
              ElementsAre(1, 3, -2, -4));
  EXPECT_THAT(ElementsOf<int8_t>({"Identity", 25}, {x}),
              ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(ElementsOf<int8_t>({"Flatten", 25}, {*matrix}),
              ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(ElementsOf<int8_t>({"Squeeze", 25}, {x}),
              ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(ElementsOf<int8_t>({"Unsqueeze", 25}, {x, Longs({0})}),
              ElementsAre(1, -2, 3, -4));
  EXPECT_THAT(ElementsOf<int64_t>({"Shape", 25}, {x}), ElementsAre(4));
  EXPECT_THAT(ElementsOf<int64_t>({"Size", 25}, {x}), ElementsAre(4));
}

TEST(ShortElementsTest, ArePaddedAndMadeAndScattered) {
  const NDArray five = MakeTensor<int8_t>({}, {5}, kInt4);
  EXPECT_THAT(
      ElementsOf<int8_t>({"Pad", 25}, {Fours({1, -2}), Longs({1, 1}), five}),
      ElementsAre(5, 1, -2, 5));
  EXPECT_THAT(ElementsOf<int8_t>({"Pad", 25, {Word("mode", "reflect")}},
                                 {Fours({1, -2}), Longs({1, 0})}),
              ElementsAre(-2, 1, -2));
  const NDArray one = MakeTensor<int8_t>({1}, {-3}, kInt4);
  EXPECT_THAT(ElementsOf<int8_t>({"ConstantOfShape", 25, {{"value", one}}},
                                 {Longs({2})}),
              ElementsAre(-3, -3));
}

TEST(ShortElementsTest, NanAndInfinityAreFound) {
  const auto x = MakeTensor<uint8_t>({4}, {0x7C, 0xFC, 0x7F, 0x3C},
                                     DLDataType{kDTypeE5M2, 8, 1});
  EXPECT_THAT(ElementsOf<uint8_t>({"IsNaN", 20}, {x}), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(ElementsOf<uint8_t>({"IsInf", 20}, {x}), ElementsAre(1, 1, 0, 0));
}

TEST(ShortElementsTest, AreNotCalculatedWith) {
  EXPECT_THAT(EvaluateOne({"Add"}, {Fours({1}), Fours({1})}),
              FailsWith(kInvalid, HasSubstr("int4")));
}

}  // namespace
}  // namespace nodewise
