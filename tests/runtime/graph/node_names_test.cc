#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_json.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

Graph TwoCalledA() {
  return GraphBuilder()
      .Input("x")
      .Op("a", "relu", {"x"}, {{}, {}})
      .Op("a", "relu", {"x"})
      .Op("b:1", "relu", {"x"})
      .Head("#3")
      .Build();
}

TEST(NodeNamesTest, KeyHasTheNumberOnlyWhereNamesAreNotUnique) {
  EXPECT_THAT(NodeKeys(TwoCalledA()), ElementsAre("x", "a#1", "a#2", "b:1"));
}

TEST(NodeNamesTest, KeyNeverIsTheNameOfAnotherNode) {
  const Graph graph = GraphBuilder()
                          .Input("a#2")
                          .Op("a", "relu", {"#0"})
                          .Op("a", "relu", {"#0"})
                          .Head("#2")
                          .Build();
  EXPECT_THAT(NodeKeys(graph), ElementsAre("a#2", "a#1", "a#2#2"));
}

TEST(NodeNamesTest, NodeIsFoundByNameKeyAndNumber) {
  const Graph graph = TwoCalledA();
  EXPECT_EQ(FindNode(graph, "x").value(), NodeId{0});
  EXPECT_EQ(FindNode(graph, "a#2").value(), NodeId{2});
  EXPECT_EQ(FindNode(graph, "#3").value(), NodeId{3});
}

TEST(NodeNamesTest, NameOfSeveralNodesIsRefusedWithTheirKeys) {
  EXPECT_THAT(FindNode(TwoCalledA(), "a"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("2 nodes have that name, expected one of "
                                  "a#1, a#2")));
}

TEST(NodeNamesTest, OfManyKeysTheFirstAreListed) {
  GraphBuilder builder;
  for (int i = 0; i < 21; ++i) builder.Input("a");
  EXPECT_THAT(FindNode(builder.Head("#0").Build(), "a"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("21 nodes have that name"),
                              EndsWith("a#18, a#19, ..."))));
}

TEST(NodeNamesTest, UnknownNameGetsTheNearest) {
  EXPECT_THAT(FindNode(AddThenRelu().Build(), "relu"),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("relu0")));
}

TEST(NodeNamesTest, EntryIsOutputZeroUnlessItSaysAnother) {
  const Graph graph = TwoCalledA();
  EXPECT_EQ(FindEntry(graph, "a#1").value(), EntryId{1});
  EXPECT_EQ(FindEntry(graph, "a#1:1").value(), EntryId{2});
  EXPECT_EQ(FindEntry(graph, "b:1").value(), EntryId{4});
}

TEST(NodeNamesTest, OutputThatANodeDoesNotHaveIsRefused) {
  EXPECT_THAT(FindEntry(TwoCalledA(), "a#2:1"),
              FailsWith(absl::StatusCode::kOutOfRange, HasSubstr("has 1")));
}

TEST(NodeNamesTest, NodeWithoutOutputsIsNoEntry) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("sink", "f", {"x"}, {})
                          .Op("b", "f", {"x"})
                          .Head("b")
                          .Build();
  EXPECT_THAT(FindEntry(graph, "sink"),
              FailsWith(absl::StatusCode::kOutOfRange,
                        HasSubstr("output 0 of node sink, which has 0")));
}

}  // namespace
}  // namespace nodewise
