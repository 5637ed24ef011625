#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nodewise/profile/profile.h"
#include "tests/runtime/profile/profile_support.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

NodeProfile FiguresOf(const Graph& graph, const Profile& profile, size_t row) {
  return Summarised(graph, profile).nodes.at(row);
}

TEST(ProfileSummaryTest, SpreadIsThatOfTheRuns) {
  Profile profile;
  for (const int64_t us : {4, 1, 3, 2}) {
    profile.runs.push_back(RunOf({0, us * 1000, 1000}));
  }
  const NodeProfile figures = FiguresOf(ThreeNodes(), profile, 0);
  EXPECT_EQ(figures.mean_us, 2.5);
  EXPECT_EQ(figures.min_us, 1);
  EXPECT_EQ(figures.max_us, 4);
  EXPECT_EQ(figures.median_us, 2.5);
  EXPECT_EQ(figures.p90_us, 4);
  EXPECT_THAT(figures.stddev_us, DoubleNear(std::sqrt(1.25), 1e-12));
}

TEST(ProfileSummaryTest, PercentilesAreOfTheNearestRank) {
  Profile profile;
  for (int64_t us = 100; us > 0; --us) {
    profile.runs.push_back(RunOf({0, us * 1000, 1}));
  }
  const NodeProfile figures = FiguresOf(ThreeNodes(), profile, 0);
  EXPECT_EQ(figures.p90_us, 90);
  EXPECT_EQ(figures.p99_us, 99);
}

TEST(ProfileSummaryTest, WhatIsInNoNodeIsTheRest) {
  Profile profile = ProfileOf({RunOf({0, 2000, 3000})});
  profile.runs[0].whole.end_ns += 500;
  profile.plain_ns = {5400, 5000, 5100};
  const Graph graph = ThreeNodes();
  const ProfileSummary summary = Summarised(graph, profile);
  EXPECT_EQ(summary.sum_us, 5);
  EXPECT_EQ(summary.run_us, 5.5);
  EXPECT_EQ(summary.rest_us, 0.5);
  EXPECT_EQ(summary.plain_median_us, 5.1);
  EXPECT_EQ(summary.plain_min_us, 5);
  EXPECT_THAT(summary.plain_us, DoubleNear(15.5 / 3, 1e-12));
}

TEST(ProfileSummaryTest, TensorReadTwiceMovesOnce) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{1000}, "float16"})
                          .Op("twice", "add", {"x", "x"}, {{{500}}, {{1}}})
                          .Build();
  const NodeProfile figures =
      FiguresOf(graph, ProfileOf({RunOf({0, 1000})}), 0);
  EXPECT_EQ(figures.bytes_read, 2000u);
  EXPECT_EQ(figures.bytes_written, 2004u);
  EXPECT_EQ(figures.gb_per_s, 4.004);
}

TEST(ProfileSummaryTest, NopInPlaceMovesNothing) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 5})
                          .Op("n", "__nop", {"x"}, {{{2, 2}, "float32", 5}})
                          .Build();
  const NodeProfile figures = FiguresOf(graph, ProfileOf({RunOf({0, 0})}), 0);
  EXPECT_EQ(figures.bytes_read + figures.bytes_written, 0u);
  EXPECT_EQ(figures.gb_per_s, 0);
}

// x holds 100 bytes, a and c share 40 of which a uses 10, b holds 20.
TEST(ProfileSummaryTest, LiveBytesAreThoseOfSlotsInUse) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{100}, "int8", 0})
                          .Op("a", "f", {"x"}, {{{10}, "int8", 1}})
                          .Op("b", "f", {"a"}, {{{20}, "int8", 2}})
                          .Op("d", "f", {"b"}, {{{5}, "int8", 3}})
                          .Op("c", "f", {"d"}, {{{40}, "int8", 1}})
                          .Head("b")
                          .Build();
  const ProfileSummary summary = Summarised(graph, Profile());
  std::vector<uint64_t> live;
  for (const NodeProfile& node : summary.nodes) live.push_back(node.live_bytes);
  EXPECT_THAT(live, ElementsAre(140, 160, 125, 165));
  EXPECT_EQ(summary.peak_live_bytes, 165u);
}

TEST(ProfileSummaryTest, TensorsInOneSlotAtOneTimeCountOnce) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{8}, "int8", 0})
                          .Op("a", "f", {"x"}, {{{8}, "int8", 1}})
                          .Op("n", "__nop", {"a"}, {{{2, 4}, "int8", 1}})
                          .Op("b", "f", {"n"}, {{{6}, "int8", 1}})
                          .Head("b")
                          .Build();
  EXPECT_EQ(Summarised(graph, Profile()).peak_live_bytes, 16u);
}

}  // namespace
}  // namespace nodewise
