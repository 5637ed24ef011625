#include "nodewise/tensors/channels_last.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ChannelsLastTest, ChannelsAreMovedBehindTheOtherSides) {
  const NDArray tensor = MakeTensor<int16_t>({1, 2, 3}, {1, 2, 3, 10, 20, 30});
  const auto moved = CopyToChannelsLast(*tensor);
  ASSERT_THAT(moved, IsOk());
  EXPECT_THAT(moved->shape(), ElementsAre(1, 3, 2));
  EXPECT_THAT(ValuesOf<int16_t>(*moved), ElementsAre(1, 10, 2, 20, 3, 30));
}

TEST(ChannelsLastTest, MovingThereAndBackChangesNothing) {
  std::vector<float> values(2 * 3 * 4 * 5);
  std::iota(values.begin(), values.end(), 0.0F);
  const NDArray tensor = MakeTensor<float>({2, 3, 4, 5}, values);
  const auto moved = CopyToChannelsLast(*tensor);
  ASSERT_THAT(moved, IsOk());
  EXPECT_THAT(moved->shape(), ElementsAre(2, 4, 5, 3));
  const auto back = CopyToChannelsFirst(**moved);
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(back->shape(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(ValuesOf<float>(*back), values);
}

TEST(ChannelsLastTest, ATensorWithoutElementsHasItsSidesMoved) {
  const auto moved = CopyToChannelsLast(*MakeTensor<float>({0, 3, 2}, {}));
  ASSERT_THAT(moved, IsOk());
  EXPECT_THAT(moved->shape(), ElementsAre(0, 2, 3));
}

TEST(ChannelsLastTest, TwoSidesAreTooFew) {
  EXPECT_THAT(CopyToChannelsFirst(*MakeTensor<float>({2, 1}, {1, 2})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 2 sides, expected 3 at least")));
}

}  // namespace
}  // namespace nodewise
