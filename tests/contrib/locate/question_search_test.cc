#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "contrib/locate/halving.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Items = std::vector<size_t>;

Items UpTo(size_t count) {
  Items items(count);
  std::iota(items.begin(), items.end(), size_t{0});
  return items;
}

bool Has(const Items& items, size_t item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

TEST(FirstLeapTest, AnyPlaceIsFoundWithTenQuestionsInAThousand) {
  for (const size_t place : {1, 2, 499, 500, 501, 1000}) {
    size_t asked = 0;
    const auto found =
        BisectFirstTrue(0, 1000, [&](size_t k) -> absl::StatusOr<bool> {
          ++asked;
          return k >= place;
        });
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(*found, place);
    EXPECT_LE(asked, 10U);
  }
}

TEST(FirstLeapTest, WhatIsNotMonotoneLeapsAtThePlaceFound) {
  const auto holds = [](size_t k) { return k >= 30 || (k > 3 && k < 17); };
  const auto found = BisectFirstTrue(
      0, 40, [&](size_t k) -> absl::StatusOr<bool> { return holds(k); });
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(holds(*found));
  EXPECT_FALSE(holds(*found - 1));
}

TEST(FirstLeapTest, AnErrorEndsTheSearch) {
  const auto found = BisectFirstTrue(0, 9, [](size_t) -> absl::StatusOr<bool> {
    return absl::AbortedError("no answer");
  });
  EXPECT_THAT(found,
              FailsWith(absl::StatusCode::kAborted, HasSubstr("no answer")));
}

TEST(SmallestSetTest, OneGuiltyItemIsFoundWithFewQuestions) {
  size_t asked = 0;
  const auto found =
      SmallestSet(UpTo(256), [&](const Items& items) -> absl::StatusOr<bool> {
        ++asked;
        return Has(items, 77);
      });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ElementsAre(77));
  EXPECT_LE(asked, 9U);
}

TEST(SmallestSetTest, ItemsThatAreGuiltyOnlyTogetherAreAllFound) {
  const auto found =
      SmallestSet(UpTo(50), [](const Items& items) -> absl::StatusOr<bool> {
        return Has(items, 3) && Has(items, 20) && Has(items, 49);
      });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ElementsAre(3, 20, 49));
}

TEST(SmallestSetTest, OfTwoThatAreEachEnoughOneIsFound) {
  const auto found =
      SmallestSet(UpTo(50), [](const Items& items) -> absl::StatusOr<bool> {
        return Has(items, 30) || Has(items, 12);
      });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ElementsAre(12));
}

TEST(SmallestSetTest, WhatIsNotNeededAnyMoreIsLeftOut) {
  // Item 5 is found first, since it helps 2, and is of no use beside 1.
  const auto found =
      SmallestSet(UpTo(6), [](const Items& items) -> absl::StatusOr<bool> {
        const bool are_all = items.size() == 6;
        return are_all || (Has(items, 1) && !Has(items, 3));
      });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(*found, ElementsAre(1));
}

}  // namespace
}  // namespace nodewise
