#include "nodewise/graph/dump_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

TEST(DumpKeyTest, KeysComeApartAsTheyWerePutTogether) {
  const std::string odd = "a____topo-index:7____output-num:x____1";
  const auto key = ParseDumpKey(DumpKeyOf(odd, NodeId{12}, 3));
  ASSERT_THAT(key, IsOk());
  EXPECT_EQ(key->node, odd);
  EXPECT_EQ(key->topo_index, 12u);
  EXPECT_TRUE(key->has_topo_index);
  EXPECT_EQ(key->output, 3u);
  const auto old = ParseDumpKey("conv____2");
  ASSERT_THAT(old, IsOk());
  EXPECT_EQ(old->node, "conv");
  EXPECT_FALSE(old->has_topo_index);
  EXPECT_EQ(old->output, 2u);
}

TEST(DumpKeyTest, OtherTextIsNotAKey) {
  for (const char* text :
       {"", "conv", "conv____", "conv____x", "a____-1", "a____ 1", "a____01",
        "a____topo-index:1____output-num:4294967296", "a____99999999999"}) {
    EXPECT_THAT(ParseDumpKey(text), FailsWith(StatusCode::kInvalidArgument,
                                              HasSubstr("topo-index")))
        << text;
  }
}

TEST(DumpKeyTest, KeyMeansTheNodeWithItsNumberAndName) {
  const Graph graph = AddThenRelu().Build();  // x, y, add0, relu0.
  const auto node_of = [&](const char* key) {
    const auto node = NodeOfDumpKey(graph, key);
    return node.has_value() ? static_cast<int>(Index(*node)) : -1;
  };
  EXPECT_EQ(node_of("y____topo-index:1____output-num:0"), 1);
  EXPECT_EQ(node_of("add0____topo-index:2____output-num:0"), 2);
  // In a key of TVM 0.8 an input's name is enough.
  EXPECT_EQ(node_of("y____0"), 1);
  for (const char* other :
       {"y____topo-index:0____output-num:0",
        "y____topo-index:1____output-num:1",
        "z____topo-index:9____output-num:0", "add0____0", "y____1", "y"}) {
    EXPECT_EQ(node_of(other), -1) << other;
  }
}

TEST(DumpKeyTest, OldKeyOfANameThatTwoInputsHaveMeansNeither) {
  const Graph graph = GraphBuilder().Input("x").Input("x").Build();
  EXPECT_FALSE(NodeOfDumpKey(graph, "x____0").has_value());
  EXPECT_TRUE(NodeOfDumpKey(graph, DumpKeyOf("x", NodeId{1}, 0)).has_value());
}

}  // namespace
}  // namespace nodewise
