#include "contrib/locate/partial_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "nodewise/graph/graph_index.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

// a = f(x), b = f(y), c = g(a, a), d = g(c, b).
Graph Diamond() {
  return GraphBuilder()
      .Input("x")
      .Input("y")
      .Op("a", "f", {"x"})
      .Op("b", "f", {"y"})
      .Op("c", "g", {"a", "a"})
      .Op("d", "g", {"c", "b"})
      .Head("d")
      .Build();
}

std::vector<std::string> NamesOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) names.push_back(node.name);
  return names;
}

NodeId NodeCalled(const Graph& graph, const std::string& name) {
  return GraphIndex(graph).FindNode(name).value();
}

bool IsSound(const Graph& graph) {
  DiagnosticList diagnostics;
  CheckGraph(graph, &diagnostics);
  return !diagnostics.HasErrors();
}

// GL-38, GL-39
TEST(PartialGraphTest, WhatLeadsToANodeIsAGraph) {
  const Graph graph = Diamond();
  const Graph part = GraphUpTo(graph, NodeCalled(graph, "c"));
  EXPECT_THAT(NamesOf(part), ElementsAre("x", "a", "c"));
  EXPECT_THAT(part.arg_nodes, ElementsAre(0));
  ASSERT_EQ(part.heads.size(), 1U);
  EXPECT_EQ(part.heads[0].node, 2U);
  EXPECT_TRUE(IsSound(part));
}

// GL-34
TEST(PartialGraphTest, ANodeAloneReadsEachEntryOnce) {
  const Graph graph = Diamond();
  const Graph one = GraphOfOne(graph, NodeCalled(graph, "c"));
  EXPECT_THAT(NamesOf(one), ElementsAre("input0", "c"));
  EXPECT_EQ(one.nodes[1].inputs.size(), 2U);
  EXPECT_TRUE(IsSound(one));
}

TEST(PartialGraphTest, SoundStorageSharesOnlyWhatIsNotNeededAnyMore) {
  Graph graph = Diamond();
  // A plan in which everything lies in one place.
  for (GraphEntry& entry : graph.entries) entry.storage_id = 0;
  const Graph sound = WithSoundStorage(graph);
  const StoragePlan plan = PlanStorage(sound, kDLCPU).value();
  DiagnosticList faults;
  CheckPlan(sound, plan, &faults);
  EXPECT_FALSE(faults.HasErrors());
  std::set<int32_t> ids;
  for (const GraphEntry& entry : sound.entries) ids.insert(entry.storage_id);
  EXPECT_LT(ids.size(), sound.entries.size());
}

}  // namespace
}  // namespace nodewise
