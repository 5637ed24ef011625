#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "contrib/ops/util/elementwise.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

// Reads all elements of a tensor in its wide type, and writes them to another.
NDArray ThereAndBack(const NDArray& tensor) {
  const int64_t count = CountOf(tensor);
  const NDArray copy =
      NDArray::Empty(tensor.shape(), tensor.dtype(), kCpu).value();
  EXPECT_THAT(WithWide(tensor.dtype(),
                       [&](auto zero) {
                         using W = decltype(zero);
                         std::vector<W> wide(static_cast<size_t>(count));
                         LoadWide(tensor, 0, count, wide.data());
                         StoreWide(wide.data(), 0, count, copy);
                         return absl::OkStatus();
                       }),
              IsOk());
  return copy;
}

template <typename T>
class WideIntegerTest : public testing::Test {};
using Integers = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                                uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(WideIntegerTest, Integers);

TYPED_TEST(WideIntegerTest, EndsSurviveThereAndBack) {
  using Limits = std::numeric_limits<TypeParam>;
  const NDArray ends =
      MakeTensor<TypeParam>({3}, {Limits::min(), Limits::max(), 1});
  EXPECT_THAT(ValuesOf<TypeParam>(ThereAndBack(ends)),
              ElementsAre(Limits::min(), Limits::max(), 1));
}

TYPED_TEST(WideIntegerTest, KeysSortAsTheNumbersDo) {
  using Limits = std::numeric_limits<TypeParam>;
  const std::vector<uint64_t> keys = SortKeys(
      MakeTensor<TypeParam>({4}, {Limits::min(), 1, 2, Limits::max()}));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

TEST(WideElementsTest, EveryHalfThatIsANumberSurvivesThereAndBack) {
  std::vector<uint16_t> bits;
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    if ((pattern & 0x7C00) == 0x7C00 && (pattern & 0x3FF) != 0) continue;
    bits.push_back(static_cast<uint16_t>(pattern));
  }
  const NDArray all = MakeTensor<uint16_t>({static_cast<int64_t>(bits.size())},
                                           bits, {kDLFloat, 16, 1});
  EXPECT_EQ(ValuesOf<uint16_t>(ThereAndBack(all)), bits);
}

TEST(WideElementsTest, AllButZeroIsTrueInABool) {
  const NDArray flags = MakeTensor<uint8_t>({3}, {0, 1, 7}, kBool);
  EXPECT_THAT(ValuesOf<uint8_t>(ThereAndBack(flags)), ElementsAre(0, 1, 1));
}

TEST(WideElementsTest, KeysPutNanAboveAllAndZerosTogether) {
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  const std::vector<uint64_t> keys = SortKeys(MakeTensor<float>(
      {7},
      {-kEnd, -1, -0.0f, 0, 1, kEnd, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(keys[2], keys[3]);
  EXPECT_LT(keys[5], keys[6]);
}

}  // namespace
}  // namespace nodewise
