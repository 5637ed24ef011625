#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/runner/node_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Graph ThreeNodes() {
  return GraphBuilder()
      .Input("a_input")
      .Op("a", "inc", {"a_input"})
      .Op("b", "copy", {"a"})
      .Op("b", "inc", {"a"})
      .Head("b")
      .Build();
}

TEST(NodeChoiceTest, NodesAreFoundByNameKeyOrFunction) {
  const Graph graph = ThreeNodes();
  const GraphIndex index(graph);
  EXPECT_THAT(*ChooseNodes(index, {"^a"}), ElementsAre("a"));
  EXPECT_THAT(*ChooseNodes(index, {"inc"}), ElementsAre("a", "b#3"));
  EXPECT_THAT(*ChooseNodes(index, {"#3", "^a$"}), ElementsAre("a", "b#3"));
  EXPECT_THAT(*ChooseNodes(index, {}), ElementsAre());
}

TEST(NodeChoiceTest, WhatChoosesNothingIsRefused) {
  const Graph graph = ThreeNodes();
  const GraphIndex index(graph);
  EXPECT_THAT(
      ChooseNodes(index, {"a", "("}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("\"(\"")));
  EXPECT_THAT(ChooseNodes(index, {"a_input"}),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("a_input")));
}

}  // namespace
}  // namespace nodewise
