#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "contrib/tensors/sources.h"
#include "nodewise/dump/dump.h"
#include "nodewise/graph/graph_index.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

TEST(DumpKeysTest, GraphDumpHasTheNamesOfItsNodes) {
  const Graph graph = Doubled();
  const auto nodes = ParseGraphDump(GraphDumpJson(graph), "g.json");
  ASSERT_THAT(nodes, IsOk());
  ASSERT_EQ(nodes->size(), graph.nodes.size());
  for (size_t i = 0; i < nodes->size(); ++i) {
    EXPECT_EQ((*nodes)[i].name, graph.nodes[i].name);
    EXPECT_EQ((*nodes)[i].is_input,
              graph.nodes[i].kind == GraphNode::Kind::kInput);
  }
}

TEST(DumpKeysTest, OtherTextIsRefused) {
  for (const char* text : {"", "nodes", "{}", "[]", "{\"nodes\": [{}]}",
                           "{\"nodes\": {}}", "{\"nodes\": [{\"name\": 1}]}",
                           "{\"nodes\": [{\"name\": \"a\"}, [\"b\"]]}",
                           "{\"nodes\": [{\"name\": \"a\"}]"}) {
    EXPECT_THAT(ParseGraphDump(text, "g.json"),
                FailsWith(StatusCode::kDataLoss,
                          HasSubstr("g.json: is not a graph of a dump")))
        << text;
  }
}

// Names that stand deeper or elsewhere in the text are not those of nodes.
TEST(DumpKeysTest, OnlyTheNamesOfNodesAreTaken) {
  const auto nodes = ParseGraphDump(
      R"({"name": "g", "heads": [["nodes"]], "nodes": [{"name": "a",
          "attrs": {"name": "b", "nodes": [{"name": "c"}]}, "op": "f"}],
          "more": [{"name": "d"}], "nodes": [{"name": "e"}]})",
      "g.json");
  ASSERT_THAT(nodes, IsOk());
  ASSERT_EQ(nodes->size(), 1u);
  EXPECT_EQ((*nodes)[0].name, "a");
  EXPECT_FALSE((*nodes)[0].is_input);
}

TEST(DumpKeysTest, NodesHaveTheKeysThatTheyHaveInTheGraph) {
  // A node may be called as another one's key would be.
  const Graph graph = GraphBuilder()
                          .Input("a")
                          .Op("a", "f", {"#0"})
                          .Op("a#1", "f", {"#1"})
                          .Op("b", "f", {"#2"})
                          .Head("b")
                          .Build();
  std::map<uint32_t, std::string> names;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    names[i] = graph.nodes[i].name;
  }
  const DumpNodeKeys keys(names);
  const GraphIndex expected(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    EXPECT_EQ(keys.KeyOf(i), expected.KeyOf(NodeId{i}));
  }
  EXPECT_EQ(keys.KeyOf(9), "#9");
  EXPECT_EQ(keys.Find("b"), 3u);
  EXPECT_EQ(keys.Find("a"), std::nullopt);
  EXPECT_EQ(keys.Find("none"), std::nullopt);
}

TEST(DumpKeysTest, NamesOfAFileAreTakenApartOnlyIfAllAreADumps) {
  const std::string key = DumpKeyOf("conv", NodeId{3}, 1);
  const auto all = KeysOfNames({key}, "f");
  EXPECT_EQ(all[0].node, "conv");
  EXPECT_EQ(all[0].slot, 1u);
  EXPECT_EQ(all[0].source, "f");
  EXPECT_EQ(KeysOfNames({key, "x"}, "f")[0].node, key);
  const std::string other = DumpKeyOf("relu", NodeId{3}, 0);
  EXPECT_EQ(KeysOfNames({key, other}, "f")[0].node, key);
}

TEST(DumpKeysTest, DamagedTextIsAnErrorOrHasNames) {
  const char* const given = std::getenv("NODEWISE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10)
                                         : std::random_device()();
  SCOPED_TRACE(
      "repeat with NODEWISE_SEED=" + std::to_string(seed) +
      " nodewise_tests --gtest_filter=DumpKeysTest.DamagedTextIsAnErrorOr*");
  std::mt19937_64 random(seed);
  const std::string text = GraphDumpJson(Doubled());
  constexpr std::string_view kBytes = "{}[]\",:\\0ent\xFF\n";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      damaged[random() % damaged.size()] = kBytes[random() % kBytes.size()];
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const auto nodes = ParseGraphDump(damaged, "g.json");
    if (!nodes.ok()) {
      ASSERT_EQ(nodes.status().code(), StatusCode::kDataLoss);
    } else {
      ASSERT_LE(nodes->size() * 10, damaged.size());
    }
  }
}

}  // namespace
}  // namespace nodewise
