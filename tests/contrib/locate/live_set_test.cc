#include <gtest/gtest.h>

#include "contrib/locate/partial_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

constexpr uint64_t kFour = 4 * sizeof(float);  // A tensor of the builder.

TEST(LiveSetTest, WhatANodeReadsAndMakesIsAliveAtOnce) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("a", "f", {"x"})
                          .Op("b", "f", {"a"})
                          .Op("c", "f", {"b"})
                          .Head("c")
                          .Build();
  EXPECT_EQ(LargestLiveSet(graph, {}), 2 * kFour);
}

TEST(LiveSetTest, WhatIsReadLaterIsAliveUntilThen) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("a", "f", {"x"})
                          .Op("b", "f", {"a"})
                          .Op("c", "f", {"b"})
                          .Op("d", "g", {"c", "a"})
                          .Head("d")
                          .Build();
  EXPECT_EQ(LargestLiveSet(graph, {}), 3 * kFour);
}

TEST(LiveSetTest, OutputsAreAliveToTheEnd) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("a", "f", {"x"})
                          .Op("b", "f", {"a"})
                          .Op("c", "f", {"b"})
                          .Op("d", "f", {"c"})
                          .Head("a")
                          .Head("d")
                          .Build();
  EXPECT_EQ(LargestLiveSet(graph, {}), 3 * kFour);
}

TEST(LiveSetTest, ParametersDoNotCount) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Input("w")
                          .Op("a", "g", {"x", "w"})
                          .Head("a")
                          .Build();
  EXPECT_EQ(LargestLiveSet(graph, {}), 3 * kFour);
  const Params params{{{"w", Floats({1, 2, 3, 4})}}};
  EXPECT_EQ(LargestLiveSet(graph, params), 2 * kFour);
}

TEST(LiveSetTest, AnOutputThatIsNeverReadIsWrittenAllTheSame) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("a", "f", {"x"})
                          .Op("unread", "f", {"a"})
                          .Op("b", "f", {"a"})
                          .Head("b")
                          .Build();
  EXPECT_EQ(LargestLiveSet(graph, {}), 2 * kFour);
}

}  // namespace
}  // namespace nodewise
