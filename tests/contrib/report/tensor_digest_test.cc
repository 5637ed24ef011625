#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "nodewise/report/tensor_summary.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(TensorDigestTest, CountsEveryFiniteNumberOnce) {
  std::vector<float> numbers(10'000);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  numbers[3] = std::numeric_limits<float>::quiet_NaN();
  numbers[5] = std::numeric_limits<float>::infinity();
  const NDArray tensor = Floats(numbers);
  const TensorDigest digest = DigestOf({"t"}, *tensor);
  EXPECT_EQ(digest.nans, 1U);
  EXPECT_EQ(digest.infinities, 1U);
  EXPECT_EQ(digest.min, 0);
  EXPECT_EQ(digest.max, 9999);
  EXPECT_EQ(std::accumulate(digest.histogram.begin(), digest.histogram.end(),
                            uint64_t{0}),
            9998U);
}

TEST(TensorDigestTest, SliceIsOfTheLastTwoSides) {
  const NDArray tensor = MakeTensor<float>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const TensorDigest digest = DigestOf({"t"}, *tensor);
  EXPECT_EQ(digest.slice_rows, 2U);
  EXPECT_EQ(digest.slice_columns, 2U);
  EXPECT_THAT(digest.slice, ElementsAre(0, 1, 2, 3));
}

TEST(TensorDigestTest, ALargeTensorTakesNoMoreRoomThanASmallOne) {
  const NDArray tensor =
      MakeTensor<float>({256, 256}, std::vector<float>(1 << 16));
  const TensorDigest digest = DigestOf({"t"}, *tensor);
  EXPECT_THAT(digest.slice, SizeIs(12 * 12));
  EXPECT_EQ(digest.histogram[0], uint64_t{1} << 16);
}

TEST(TensorDigestTest, AnEmptyTensorHasNoNumbers) {
  const TensorDigest digest = DigestOf({"t"}, *Floats({}));
  EXPECT_FALSE(digest.has_numbers);
}

}  // namespace
}  // namespace nodewise
