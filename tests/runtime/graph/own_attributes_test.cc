#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_json.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(OwnAttributesTest, ListsOfNamesComeBack) {
  const std::vector<std::string> names = {"a", "", "b \"c\", \\ \n",
                                          "\xc3\xa4"};
  EXPECT_EQ(ParseListText(ListText(names)), names);
  EXPECT_EQ(ListText({}), "[]");
}

TEST(OwnAttributesTest, WhatIsNotAListOfNamesIsNone) {
  for (const char* text : {"", "a", "[1]", "[\"a\"", "{\"a\": 1}", "[[]]"}) {
    EXPECT_EQ(ParseListText(text), std::nullopt) << text;
  }
}

TEST(OwnAttributesTest, BytesThatAreNotTextAreReplaced) {
  EXPECT_THAT(ParseListText(ListText(std::vector<std::string>{"a\xff"})),
              Optional(ElementsAre("a\xef\xbf\xbd")));
}

TEST(OwnAttributesTest, AGraphSaysThatItsFunctionsAreBuiltIn) {
  Graph graph;
  EXPECT_FALSE(HasBuiltInFunctions(graph));
  SetBuiltInFunctions(&graph);
  SetBuiltInFunctions(&graph);
  EXPECT_TRUE(HasBuiltInFunctions(graph));
  ASSERT_EQ(graph.other_attrs.size(), 1u);
  graph.other_attrs[0].second = R"(["size_t", 0])";
  EXPECT_FALSE(HasBuiltInFunctions(graph));
}

TEST(OwnAttributesTest, ANodeSaysWhatItsOutputsAreCalled) {
  Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].name = "x";
  graph.nodes[1].kind = GraphNode::Kind::kFunction;
  graph.nodes[1].attrs = {{std::string(kValuesAttribute), R"(["y"])"}};
  EXPECT_THAT(ValueNameOf(graph, {1, 0}), Optional(std::string("y")));
  EXPECT_EQ(ValueNameOf(graph, {1, 1}), std::nullopt);
  EXPECT_EQ(ValueNameOf(graph, {0, 0}), std::nullopt);
  SetBuiltInFunctions(&graph);
  EXPECT_THAT(ValueNameOf(graph, {0, 0}), Optional(std::string("x")));
}

TEST(OwnAttributesTest, AnOperationIsFoundInTheNodeThatCoversIt) {
  Graph graph;
  graph.nodes.resize(3);
  graph.nodes[1].attrs = {{std::string(kCoversAttribute), "damaged"}};
  graph.nodes[2].attrs = {{std::string(kCoversAttribute), R"(["a", "b"])"}};
  EXPECT_THAT(NodeCovering(graph, "b"), Optional(NodeId{2}));
  EXPECT_EQ(NodeCovering(graph, "c"), std::nullopt);
}

}  // namespace
}  // namespace nodewise
