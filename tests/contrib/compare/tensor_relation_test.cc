#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nodewise/compare/compare.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kPlanes = 3, kRows = 10, kColumns = 12;
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

// What stands at a channel, a row and a column.
using Picture = std::function<double(int64_t c, int64_t h, int64_t w)>;

// A picture of bytes, without a pattern of its own.
double Byte(int64_t c, int64_t h, int64_t w) {
  std::minstd_rand draw(
      static_cast<uint32_t>(1 + (c * kRows + h) * kColumns + w));
  draw.discard(10);
  return draw() % 256;
}
double Normalised(int64_t c, int64_t h, int64_t w) {
  constexpr double kMean[] = {124, 116, 104}, kDeviation[] = {58, 57, 50};
  return (Byte(c, h, w) - kMean[c]) / kDeviation[c];
}

template <typename T = float>
NDArray ChannelsFirst(const Picture& picture, DLDataType dtype = kFloat32) {
  NDArray made =
      NDArray::Empty({1, kPlanes, kRows, kColumns}, dtype, {kDLCPU, 0}).value();
  auto* to = static_cast<T*>(made.data());
  for (int64_t c = 0; c < kPlanes; ++c) {
    for (int64_t h = 0; h < kRows; ++h) {
      for (int64_t w = 0; w < kColumns; ++w) {
        *to++ = static_cast<T>(picture(c, h, w));
      }
    }
  }
  return made;
}

NDArray ChannelsLast(const Picture& picture, std::vector<int64_t> shape = {
                                                 1, kRows, kColumns, kPlanes}) {
  NDArray made = NDArray::Empty(shape, kFloat32, {kDLCPU, 0}).value();
  auto* to = static_cast<float*>(made.data());
  for (int64_t h = 0; h < kRows; ++h) {
    for (int64_t w = 0; w < kColumns; ++w) {
      for (int64_t c = 0; c < kPlanes; ++c) {
        *to++ = static_cast<float>(picture(c, h, w));
      }
    }
  }
  return made;
}

TEST(TensorRelationTest, ChannelsLastUnderTheShapeOfChannelsFirst) {
  const NDArray right = ChannelsFirst(Normalised);
  const auto found = FindRelation(
      *right, *ChannelsLast(Normalised, {1, kPlanes, kRows, kColumns}));
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->order, ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(found->factors, IsEmpty());
  EXPECT_EQ(WordsOf(*found, *right),
            "what is expected, with the axes in the order 0, 2, 3, 1 (channels "
            "last)");
}

TEST(TensorRelationTest, ANormalisationForEachChannelIsTold) {
  const NDArray right = ChannelsFirst(Normalised);
  const auto found = FindRelation(*right, *ChannelsFirst(Byte));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(WordsOf(*found, *right),
            "what is expected, each slice of axis 1 on its own: times 58 plus "
            "124; times 57 plus 116; times 50 plus 104");
}

TEST(TensorRelationTest, SeveralStepsAtOnceAreAllTold) {
  const NDArray right = ChannelsFirst(
      [](int64_t c, int64_t h, int64_t w) { return Byte(c, h, w) / 255; });
  const NDArray given = ChannelsLast([](int64_t c, int64_t h, int64_t w) {
    return Byte(kPlanes - 1 - c, h, w);
  });
  const auto found = FindRelation(*right, *given);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(WordsOf(*found, *right),
            "what is expected, with the axes in the order 0, 2, 3, 1 (channels "
            "last), in reverse order along axis 1 (BGR for RGB), and times "
            "255");
}

TEST(TensorRelationTest, BytesOfAnotherTypeAreTheNumbersTheyAre) {
  const NDArray right = ChannelsFirst(
      [](int64_t c, int64_t h, int64_t w) { return Byte(c, h, w) / 127 - 1; });
  const auto found =
      FindRelation(*right, *ChannelsFirst<uint8_t>(Byte, {kDLUInt, 8, 1}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(WordsOf(*found, *right), "what is expected, times 127 plus 127");
}

TEST(TensorRelationTest, OtherNumbersAreNotRelated) {
  const Picture other = [](int64_t c, int64_t h, int64_t w) {
    return Byte(c, w, h + 100);
  };
  EXPECT_FALSE(
      FindRelation(*ChannelsFirst(Byte), *ChannelsFirst(other)).has_value());
}

TEST(TensorRelationTest, AChannelThatIsNotRelatedRefutesTheRest) {
  const Picture partly = [](int64_t c, int64_t h, int64_t w) {
    return c == 2 ? Byte(c, w, h + 100) : 2 * Byte(c, h, w);
  };
  EXPECT_FALSE(
      FindRelation(*ChannelsFirst(Byte), *ChannelsFirst(partly)).has_value());
}

TEST(TensorRelationTest, AConstantIsNotMadeOfAnything) {
  const Picture zero = [](int64_t, int64_t, int64_t) { return 0; };
  EXPECT_FALSE(
      FindRelation(*ChannelsFirst(Byte), *ChannelsFirst(zero)).has_value());
}

TEST(TensorRelationTest, WhatNetworksAreGivenWasPerhapsNeverSet) {
  const Picture zero = [](int64_t, int64_t, int64_t) { return 0; };
  const NDArray right = ChannelsFirst(Normalised);
  const TensorKey key;
  TensorItem item{.key = key};
  item.tensor = right.tensor();
  CompareOptions options;
  options.describe = true;
  const auto compared = CompareTensors(item, *ChannelsFirst(zero), options);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(DescribeGivenInput(*compared->details),
            "all wrong elements are 0, as in an input that was never set");
}

TEST(TensorRelationTest, WhatNothingRelatesIsSaidToBeSo) {
  EXPECT_THAT(DescribeGivenInput({}), HasSubstr("no other order"));
}

}  // namespace
}  // namespace nodewise
