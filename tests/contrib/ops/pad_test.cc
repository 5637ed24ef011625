#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedAttr Mode(const char* mode) { return {"mode", std::string(mode)}; }

TEST(PadTest, EveryModeFillsItsWay) {
  const NDArray x = Floats({1, 2, 3});
  const NDArray pads = Longs({2, 1});
  EXPECT_THAT(ElementsOf({"Pad", 13}, {x, pads, MakeTensor<float>({}, {9})}),
              ElementsAre(9, 9, 1, 2, 3, 9));
  EXPECT_THAT(ElementsOf({"Pad", 13, {Mode("reflect")}}, {x, pads}),
              ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(ElementsOf({"Pad", 13, {Mode("edge")}}, {x, pads}),
              ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(ElementsOf({"Pad", 19, {Mode("wrap")}}, {x, pads}),
              ElementsAre(2, 3, 1, 2, 3, 1));
}

TEST(PadTest, ReflectionGoesOnBeyondTheOtherEnd) {
  EXPECT_THAT(ElementsOf({"Pad", 13, {Mode("reflect")}},
                         {Floats({1, 2}), Longs({3, 2})}),
              ElementsAre(2, 1, 2, 1, 2, 1, 2));
}

TEST(PadTest, NegativePadsCutOff) {
  EXPECT_THAT(ElementsOf({"Pad", 13}, {Floats({1, 2, 3, 4}), Longs({-1, 1})}),
              ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(ElementsOf({"Pad", 13, {Mode("edge")}},
                         {Floats({1, 2, 3, 4}), Longs({-2, 2})}),
              ElementsAre(3, 4, 4, 4));
  EXPECT_FALSE(
      EvaluateOne({"Pad", 13}, {Floats({1, 2}), Longs({-2, -1})}).ok());
}

TEST(PadTest, AxesNameTheSides) {
  const auto x = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(
      ElementsOf({"Pad", 18}, {x, Longs({0, 1}), NDArray(), Longs({-1})}),
      ElementsAre(1, 2, 0, 3, 4, 0));
}

TEST(PadTest, HugePadsFailInsteadOfOverflowing) {
  for (const int64_t pad : {INT64_MAX, INT64_MAX / 2, INT64_MIN}) {
    EXPECT_THAT(EvaluateOne({"Pad", 13}, {Floats({1, 2}), Longs({pad, pad})}),
                FailsWith(kInvalid, HasSubstr("input 1: has pads of")));
  }
}

TEST(TileTest, SidesAreRepeated) {
  const auto x = MakeTensor<float>({1, 2}, {1, 2});
  EXPECT_THAT(ElementsOf({"Tile", 13}, {x, Longs({2, 2})}),
              ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
  EXPECT_THAT(EvaluateOne({"Tile", 13}, {x, Longs({-1, 2})}),
              FailsWith(kInvalid, HasSubstr("-1")));
}

TEST(DepthToSpaceTest, TheModeSaysHowDepthIsOrdered) {
  const auto x = MakeTensor<float>({1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(ElementsOf({"DepthToSpace", 13, {Attr("blocksize", 2)}}, {x}),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_THAT(
      ElementsOf({"DepthToSpace", 13, {Attr("blocksize", 2), Mode("CRD")}},
                 {x}),
      ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(DepthToSpaceTest, SpaceToDepthTurnsItBack) {
  const auto x = MakeTensor<float>({1, 1, 2, 2}, {0, 1, 2, 3});
  EXPECT_THAT(ElementsOf({"SpaceToDepth", 13, {Attr("blocksize", 2)}}, {x}),
              ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(
      EvaluateOne({"SpaceToDepth", 13, {Attr("blocksize", 3)}}, {x}).ok());
  EXPECT_FALSE(
      EvaluateOne({"SpaceToDepth", 13, {Attr("blocksize", 0)}}, {x}).ok());
}

TEST(DepthToSpaceTest, SpaceToDepthHasTwoOrdersFromOpset28On) {
  const auto x = MakeTensor<float>({1, 2, 1, 2}, {0, 1, 2, 3});
  const auto tall = MakeTensor<float>({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const OpSetup crd{
      "SpaceToDepth", 28, {Attr("blocksize", 2), Word("mode", "CRD")}};
  EXPECT_THAT(ElementsOf({"SpaceToDepth", 28, {Attr("blocksize", 2)}}, {tall}),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(ElementsOf(crd, {tall}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_FALSE(EvaluateOne(crd, {x}).ok());
  EXPECT_FALSE(EvaluateOne({"SpaceToDepth", 27, crd.attrs}, {tall}).ok());
}

TEST(CenterCropPadTest, TheOddElementIsAtTheEnd) {
  EXPECT_THAT(
      ElementsOf({"CenterCropPad", 18}, {Floats({1, 2, 3, 4}), Longs({3})}),
      ElementsAre(1, 2, 3));
  EXPECT_THAT(ElementsOf({"CenterCropPad", 18}, {Floats({1, 2}), Longs({5})}),
              ElementsAre(0, 1, 2, 0, 0));
}

}  // namespace
}  // namespace nodewise
