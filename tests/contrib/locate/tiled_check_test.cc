#include "contrib/locate/tiled_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "nodewise/compare/bounds.h"
#include "nodewise/interp/network_bounds.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

NDArray Ripples(const std::vector<int64_t>& shape, float step) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  const size_t count = tensor.bytes() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    tensor.As<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  }
  return tensor;
}

// A region that is large enough to be cut, and what it reads.
struct LargeRegion {
  Network network;
  std::vector<NDArray> read;
};

LargeRegion ConvRelu() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2, 128, 128});
  const ValueId w = b.In("w", {16, 2, 3, 3});
  const ValueId bias = b.In("b", {16});
  const ValueId c = b.Op("Conv", {x, w, bias},
                         {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})[0];
  b.Out({b.Op("Relu", {c})[0]});
  return {b.net,
          {Ripples({1, 2, 128, 128}, 0.01F), Ripples({16, 2, 3, 3}, 0.7F),
           Ripples({16}, 1.3F)}};
}

LargeRegion ProductAndSum() {
  NetBuilder b;
  const ValueId x = b.In("x", {512, 64});
  const ValueId w = b.In("w", {64, 256});
  const ValueId bias = b.In("b", {256});
  const ValueId m = b.Op("MatMul", {x, w})[0];
  const ValueId a = b.Op("Add", {m, bias})[0];
  // As a region says that its output lies with other sides last.
  b.Out({b.Op("Transpose", {a}, {{"perm", std::vector<int64_t>{1, 0}}})[0]});
  return {b.net,
          {Ripples({512, 64}, 0.01F), Ripples({64, 256}, 0.7F),
           Ripples({256}, 1.3F)}};
}

LargeRegion Normalized() {
  NetBuilder b;
  b.Out({b.Op("LRN", {b.In("x", {1, 16, 128, 64})}, {{"size", 5}})[0]});
  return {b.net, {Ripples({1, 16, 128, 64}, 0.01F)}};
}

LargeRegion SoftmaxOfRows() {
  NetBuilder b;
  b.Out({b.Op("Softmax", {b.In("x", {1024, 128})}, {{"axis", -1}})[0]});
  return {b.net, {Ripples({1024, 128}, 0.01F)}};
}

// What CheckNodes() does.
BoundCheck CheckWhole(const LargeRegion& large, const NDArray& made) {
  const auto whole = InterpretCarryingBounds(large.network, large.read).value();
  return CheckBounds(*whole[0].tensor, *made, whole[0].bounds.proved,
                     whole[0].bounds.expected,
                     ToleranceOf({Rule::Kind::kByType}, made.dtype()));
}

TEST(TiledCheckTest, PiecesSayWhatTheWholeSays) {
  for (const LargeRegion& large :
       {ConvRelu(), ProductAndSum(), Normalized(), SoftmaxOfRows()}) {
    const NDArray expected = Interpret(large.network, large.read).value()[0];
    ASSERT_TRUE(NeedsTiles(large.network, expected));
    NDArray made = expected.CopyToHost().value();
    const size_t count = made.bytes() / sizeof(float);
    // A little everywhere, and one wrong element behind the middle.
    for (size_t i = 0; i < count; ++i) made.As<float>()[i] *= 1.00002F;
    made.As<float>()[2 * count / 3] += 0.5F;
    const auto tiled =
        CheckInTiles("node", {large.network, large.read, expected, made});
    ASSERT_THAT(tiled, IsOk());
    ASSERT_TRUE(tiled->has_value());
    const BoundCheck& found = *(*tiled)->bounds;
    const BoundCheck whole = CheckWhole(large, made);
    EXPECT_EQ(found.outside, whole.outside);
    EXPECT_EQ(found.unexpected, whole.unexpected);
    EXPECT_EQ(found.without_bound, whole.without_bound);
    EXPECT_EQ(found.worst.element, whole.worst.element);
    EXPECT_EQ(found.ratio, whole.ratio);
    EXPECT_NEAR(found.allowed_norm / whole.allowed_norm, 1, 1e-9);
    EXPECT_NEAR(found.alignment / whole.alignment, 1, 1e-9);
    EXPECT_EQ((*tiled)->verdict(), Verdict::kError);
  }
}

// The largest of numbers with a NaN among them is that or another one.
TEST(TiledCheckTest, WhatIsMadeOfNaNIsAsOpenInPiecesAsInTheWhole) {
  NetBuilder b;
  b.Out({b.Op("MaxPool", {b.In("x", {1, 16, 128, 64})},
              {{"kernel_shape", std::vector<int64_t>{1, 2}}})[0]});
  const NDArray x = Ripples({1, 16, 128, 64}, 0.01F);
  x.As<float>()[0] = NAN;
  const NDArray expected = Interpret(b.net, {x}).value()[0];
  const NDArray made = expected.CopyToHost().value();
  ASSERT_TRUE(std::isnan(made.As<float>()[0]));
  made.As<float>()[0] = x.As<float>()[1];
  ASSERT_TRUE(NeedsTiles(b.net, expected));
  const auto tiled = CheckInTiles("node", {b.net, {x}, expected, made});
  ASSERT_THAT(tiled, IsOk());
  ASSERT_TRUE(tiled->has_value());
  EXPECT_EQ((*tiled)->bounds->open_nans, 1U);
  EXPECT_EQ((*tiled)->verdict(), Verdict::kPass);
}

TEST(TiledCheckTest, EqualTensorsNeedNoBounds) {
  const LargeRegion large = ConvRelu();
  const NDArray expected = Interpret(large.network, large.read).value()[0];
  const auto tiled =
      CheckInTiles("node", {large.network, large.read, expected, expected});
  ASSERT_THAT(tiled, IsOk());
  EXPECT_EQ((*tiled)->verdict(), Verdict::kPass);
}

TEST(TiledCheckTest, SmallTensorsAreNotCut) {
  NetBuilder b;
  b.Out({b.Op("Relu", {b.In("x", {16})})[0]});
  EXPECT_FALSE(NeedsTiles(b.net, Ripples({16}, 1)));
}

TEST(RegionTilesTest, AConvolutionIsCutByItsWeights) {
  const auto cut = FindTileCut(ConvRelu().network, 4);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->side, 1U);
  EXPECT_THAT(cut->inputs, ElementsAre(std::nullopt, std::optional<size_t>(0),
                                       std::optional<size_t>(0)));
}

// The side of a cut of an operator of one large input; none: there is no cut.
std::optional<size_t> CutSideOf(const std::string& kind, const Shape& shape,
                                const std::vector<NamedAttr>& attrs) {
  NetBuilder b;
  b.Out({b.Op(kind, {b.In("x", shape)}, attrs)[0]});
  const auto cut = FindTileCut(b.net, 4);
  if (!cut.has_value()) return std::nullopt;
  EXPECT_THAT(cut->inputs, ElementsAre(std::optional<size_t>(cut->side)));
  return cut->side;
}

TEST(RegionTilesTest, WhatDependsOnAWholeSideIsCutAlongAnother) {
  EXPECT_EQ(CutSideOf("Softmax", {64, 64}, {{"axis", 0}}), 1U);
  EXPECT_EQ(CutSideOf("Softmax", {64, 64}, {{"axis", -1}}), 0U);
  EXPECT_EQ(CutSideOf("Softmax", {64}, {{"axis", -1}}), std::nullopt);
  EXPECT_EQ(CutSideOf("LRN", {1, 64, 32, 32}, {{"size", 5}}), 2U);
}

TEST(RegionTilesTest, ANormalizationIsCutInFrontOfItsSides) {
  NetBuilder b;
  const ValueId x = b.In("x", {8, 16, 64});
  const ValueId scale = b.In("scale", {64});
  b.Out({b.Op("LayerNormalization", {x, scale}, {{"axis", -1}})[0]});
  const auto cut = FindTileCut(b.net, 4);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->side, 0U);
  EXPECT_THAT(cut->inputs, ElementsAre(std::optional<size_t>(0), std::nullopt));
}

TEST(RegionTilesTest, AnInputThatIsRepeatedStaysWhole) {
  NetBuilder b;
  const ValueId x = b.In("x", {64, 8});
  const ValueId row = b.In("row", {8});
  b.Out({b.Op("Add", {x, row})[0]});
  const auto cut = FindTileCut(b.net, 4);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->side, 0U);
  EXPECT_THAT(cut->inputs, ElementsAre(std::optional<size_t>(0), std::nullopt));
}

TEST(RegionTilesTest, APartIsCopiedRowByRow) {
  const NDArray tensor =
      MakeTensor<float>({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto part = CutOut(tensor, 1, 1, 3);
  ASSERT_THAT(part, IsOk());
  EXPECT_THAT(part->shape(), ElementsAre(2, 2, 2));
  EXPECT_THAT(ValuesOf(*part), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11));
}

}  // namespace
}  // namespace nodewise
