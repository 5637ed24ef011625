#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_json.h"
#include "nodewise/module/module.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/report/profile_report.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;

// Runs in which each node of the graph takes so many microseconds, with a
// little noise that is another in every run.
Profile ProfileOf(const Graph& graph, const std::vector<int64_t>& us,
                  int runs = 30) {
  Profile profile;
  for (int run = 0; run < runs; ++run) {
    TimedRun& timed = profile.runs.emplace_back();
    timed.nodes.resize(graph.nodes.size());
    for (size_t i = 0, next = 0; i < graph.nodes.size(); ++i) {
      if (!graph.IsFunction(NodeId{static_cast<uint32_t>(i)})) continue;
      const int64_t noise = (run * 7 + static_cast<int64_t>(i) * 3) % 5;
      timed.nodes[i].end_ns = us[next++] * 1000 + noise;
    }
  }
  return profile;
}

std::vector<ProfileChange> ChangesOf(const Graph& before,
                                     const std::vector<int64_t>& us_before,
                                     const Graph& after,
                                     const std::vector<int64_t>& us_after) {
  const GraphIndex index_before(before);
  const GraphIndex index_after(after);
  return CompareProfiles(index_before, ProfileOf(before, us_before),
                         index_after, ProfileOf(after, us_after));
}

Graph Chain() {
  return GraphBuilder()
      .Input("x")
      .Op("a", "inc", {"x"})
      .Op("b", "inc", {"a"})
      .Head("b")
      .Build();
}

TEST(CompareProfilesTest, ANodeThatAlwaysTakesLongerIsCertain) {
  const auto changes = ChangesOf(Chain(), {10, 10}, Chain(), {10, 12});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_GT(changes[0].p, 0.05);
  EXPECT_LT(changes[1].p, 0.001);
  EXPECT_NEAR(changes[1].before_us, 10, 0.01);
  EXPECT_NEAR(changes[1].after_us, 12, 0.01);
}

TEST(CompareProfilesTest, ATimeThatIsLongerInHalfTheRunsMayBeChance) {
  const Graph graph = Chain();
  Profile after = ProfileOf(graph, {10, 10});
  for (size_t run = 0; run < after.runs.size(); ++run) {
    after.runs[run].nodes[2].end_ns += run % 2 == 0 ? 3000 : -3000;
  }
  const GraphIndex index(graph);
  const auto changes =
      CompareProfiles(index, ProfileOf(graph, {10, 10}), index, after);
  EXPECT_THAT(changes[1].p, Gt(0.05));
}

TEST(CompareProfilesTest, WhatOneBuildFusesIsComparedAsOnePart) {
  const auto covers = [](const std::vector<std::string>& names) {
    return ListText(names);
  };
  const std::string key(kCoversAttribute);
  const Graph apart = GraphBuilder()
                          .Input("x")
                          .Op("p", "f", {"x"})
                          .Attr(key, covers({"conv"}))
                          .Op("q", "f", {"p"})
                          .Attr(key, covers({"relu"}))
                          .Op("r", "f", {"q"})
                          .Attr(key, covers({"pool"}))
                          .Head("r")
                          .Build();
  const Graph fused = GraphBuilder()
                          .Input("x")
                          .Op("pq", "f", {"x"})
                          .Attr(key, covers({"conv", "relu"}))
                          .Op("r", "f", {"pq"})
                          .Attr(key, covers({"pool"}))
                          .Head("r")
                          .Build();
  const auto changes = ChangesOf(apart, {10, 5, 1}, fused, {11, 1});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_THAT(changes[0].before, ElementsAre("p", "q"));
  EXPECT_THAT(changes[0].after, ElementsAre("pq"));
  EXPECT_NEAR(changes[0].before_us, 15, 0.02);
  EXPECT_LT(changes[0].p, 0.001);
  EXPECT_THAT(changes[1].before, ElementsAre("r"));
}

TEST(CompareProfilesTest, ANodeOfOneBuildAloneIsNotPaired) {
  const Graph longer = GraphBuilder()
                           .Input("x")
                           .Op("a", "inc", {"x"})
                           .Op("b", "inc", {"a"})
                           .Op("c", "inc", {"b"})
                           .Head("c")
                           .Build();
  const auto changes = ChangesOf(Chain(), {1, 1}, longer, {1, 1, 9});
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_FALSE(changes[2].is_paired());
  EXPECT_THAT(changes[2].after, ElementsAre("c"));
  EXPECT_EQ(changes[2].p, 1);
}

// The functions of a compiler and the names of a model's parts.
Session SessionOf(Graph graph) {
  Session session;
  session.target =
      GraphTarget::FromArtefact(
          "net", {std::move(graph), BuiltInLibrary({}), {}}, {kCpu})
          .value();
  return session;
}

ProfileSummary SummaryOf(const Graph& graph, const std::vector<double>& us) {
  ProfileSummary summary;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.IsFunction(NodeId{n})) continue;
    NodeProfile& row = summary.nodes.emplace_back();
    row.node = NodeId{n};
    row.mean_us = us[summary.nodes.size() - 1];
    row.percent = row.mean_us;
  }
  return summary;
}

TEST(GroupProfileTest, FunctionsThatDifferInANumberAreOfOneKind) {
  const Session session =
      SessionOf(GraphBuilder()
                    .Input("x")
                    .Op("a", "tvmgen_default_fused_nn_conv2d_add", {"x"})
                    .Op("b", "tvmgen_default_fused_nn_conv2d_add_1", {"a"})
                    .Op("c", "fused_matmul1", {"b"})
                    .Head("c")
                    .Build());
  const auto groups =
      GroupProfile(session, SummaryOf(session.target->graph(), {20, 30, 50.5}),
                   ProfileGrouping::kKind);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "matmul");
  EXPECT_EQ(groups[1].name, "nn_conv2d_add");
  EXPECT_EQ(groups[1].nodes, 2u);
  EXPECT_EQ(groups[1].mean_us, 50);
}

TEST(GroupProfileTest, ModulesAreToldApartByTheFirstPartThatDiffers) {
  const Session session =
      SessionOf(GraphBuilder()
                    .Input("x")
                    .Op("/net/layer1/conv/Conv", "f", {"x"})
                    .Op("/net/layer1/relu/Relu", "f", {"/net/layer1/conv/Conv"})
                    .Op("/net/layer2/conv/Conv", "f", {"/net/layer1/relu/Relu"})
                    .Head("/net/layer2/conv/Conv")
                    .Build());
  const ProfileSummary summary = SummaryOf(session.target->graph(), {1, 2, 10});
  const auto groups = GroupProfile(session, summary, ProfileGrouping::kModule);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "net/layer2");
  EXPECT_EQ(groups[1].name, "net/layer1");
  EXPECT_EQ(groups[1].mean_us, 3);
  EXPECT_EQ(GroupProfile(session, summary, ProfileGrouping::kModule, 3).size(),
            3u);
}

// A chain of Relu, each with the scopes that an exporter has noted for it; none
// where they are empty. Each node of the graph has some of them in it.
Session NotedSession(
    const std::vector<std::pair<std::string, std::string>>& operations,
    const std::vector<std::vector<std::string>>& nodes) {
  Network network("net");
  ValueId last = network.AddInput("x", TensorType(kFloat32, {2})).value();
  for (const auto& [name, scopes] : operations) {
    NewOperation relu;
    relu.attrs =
        OpAttrs::From(AllOperators().Find("", "Relu", 14), ops::Relu{});
    relu.inputs = {last};
    relu.name = name;
    if (!scopes.empty()) {
      Origin origin;
      origin.notes.emplace_back("pkg.torch.onnx.name_scopes",
                                std::make_shared<const std::string>(scopes));
      relu.origin = std::make_shared<const Origin>(std::move(origin));
    }
    const OperationId id = network.AddOperation(std::move(relu)).value();
    last = network.operation(id).outputs[0];
  }
  GraphBuilder graph;
  std::string before = "x";
  graph.Input(before);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string name = "node" + std::to_string(i);
    graph.Op(name, "f", {before})
        .Attr(std::string(kCoversAttribute), ListText(nodes[i]));
    before = name;
  }
  Session session = SessionOf(graph.Head(before).Build());
  session.network = std::make_shared<const Network>(std::move(network));
  return session;
}

std::vector<std::string> ModulesIn(const Session& session,
                                   const std::vector<double>& us,
                                   size_t depth = 9) {
  std::vector<std::string> names;
  for (const ProfileGroup& group :
       GroupProfile(session, SummaryOf(session.target->graph(), us),
                    ProfileGrouping::kModule, depth)) {
    names.push_back(group.name);
  }
  return names;
}

TEST(GroupProfileTest, AModuleIsTheOneThatTheExporterHasNoted) {
  const Session session =
      NotedSession({{"/a/Relu", "['', 'layers', 'layers.0', 'relu']"},
                    {"relu_1", "['', 'head', 'relu']"}},
                   {{"/a/Relu"}, {"relu_1"}});
  EXPECT_THAT(ModulesIn(session, {2, 1}), ElementsAre("layers/0", "head"));
  EXPECT_THAT(ModulesIn(session, {2, 1}, 1), ElementsAre("layers", "head"));
}

TEST(GroupProfileTest, AFusedNodeIsOfTheInnermostModuleOrWhatIsAround) {
  const std::vector<std::pair<std::string, std::string>> operations = {
      {"a", "['', 'layers', 'layers.0', 'layers.0.conv', 'relu']"},
      {"b", "['', 'layers', 'layers.0', 'relu']"},
      {"c", "['', 'layers', 'layers.1', 'relu']"}};
  EXPECT_THAT(ModulesIn(NotedSession(operations, {{"a", "b"}, {"c"}}), {2, 1}),
              ElementsAre("layers/0/conv", "layers/1"));
  EXPECT_THAT(ModulesIn(NotedSession(operations, {{"a", "b", "c"}}), {1}),
              ElementsAre("layers"));
}

TEST(GroupProfileTest, WithoutNotesAModuleIsByTheNamesOfTheModel) {
  const Session session = NotedSession({{"/block/Relu", ""}, {"/b/Relu", ""}},
                                       {{"/block/Relu"}, {"/b/Relu"}});
  EXPECT_THAT(ModulesIn(session, {2, 1}), ElementsAre("block", "b"));
}

}  // namespace
}  // namespace nodewise
