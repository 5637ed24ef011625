#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "nodewise/foreign/foreign_observation.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The fault is there as long as none of `harmful` is observed.
absl::StatusOr<ObservationSearch> SearchWithout(const std::set<size_t>& harmful,
                                                size_t count,
                                                size_t most_runs = 1000) {
  return SearchObservable(
      count, most_runs,
      [&](absl::Span<const size_t> values) -> absl::StatusOr<bool> {
        EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
        return std::none_of(values.begin(), values.end(), [&](size_t value) {
          return harmful.contains(value);
        });
      });
}

TEST(ObservationSearchTest, WhereNothingHarmsAllIsKeptAfterOneRun) {
  const auto search = SearchWithout({}, 100);
  ASSERT_THAT(search, IsOk());
  EXPECT_THAT(search->kept, SizeIs(100));
  EXPECT_EQ(search->runs, 1);
}

TEST(ObservationSearchTest, OnlyWhatHarmsIsDropped) {
  const auto search = SearchWithout({0, 37, 38, 99}, 100);
  ASSERT_THAT(search, IsOk());
  EXPECT_THAT(search->dropped, ElementsAre(0, 37, 38, 99));
  EXPECT_THAT(search->kept, SizeIs(96));
  EXPECT_TRUE(search->is_complete);
}

TEST(ObservationSearchTest, OneOfAThousandTakesAboutTwiceTheLogarithm) {
  const auto search = SearchWithout({700}, 1024);
  ASSERT_THAT(search, IsOk());
  EXPECT_THAT(search->dropped, ElementsAre(700));
  EXPECT_LE(search->runs, 22);
}

TEST(ObservationSearchTest, WhereEverythingHarmsNothingIsKept) {
  const auto search = SearchWithout({0, 1, 2}, 3);
  ASSERT_THAT(search, IsOk());
  EXPECT_THAT(search->kept, IsEmpty());
  EXPECT_THAT(search->dropped, ElementsAre(0, 1, 2));
}

TEST(ObservationSearchTest, WhatCouldNotBeTriedInTimeIsDropped) {
  const auto search = SearchWithout({5}, 64, 3);
  ASSERT_THAT(search, IsOk());
  EXPECT_FALSE(search->is_complete);
  EXPECT_EQ(search->runs, 3);
  EXPECT_THAT(search->kept, IsEmpty());
  EXPECT_THAT(search->dropped, SizeIs(64));
}

TEST(ObservationSearchTest, NoValuesNeedNoRun) {
  const auto search = SearchWithout({}, 0);
  ASSERT_THAT(search, IsOk());
  EXPECT_EQ(search->runs, 0);
}

TEST(ObservationSearchTest, AFailureOfARunIsReturned) {
  const auto search = SearchObservable(
      3, 10, [](absl::Span<const size_t>) -> absl::StatusOr<bool> {
        return absl::UnavailableError("gone");
      });
  EXPECT_THAT(search, FailsWith(absl::StatusCode::kUnavailable, "gone"));
}

}  // namespace
}  // namespace nodewise
