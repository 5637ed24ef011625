// Mixtures of builds whose nodes do not say what they compute.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/locate/mix_builds.h"
#include "tests/contrib/locate/spoiled_library.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const GraphTarget> UntoldBuild(const std::string& name,
                                               Graph graph,
                                               Ref<Library> library) {
  return GraphTarget::FromArtefact(
             name, {std::move(graph), std::move(library), {}}, {kCpu})
      .value();
}

std::vector<std::string> GuiltyOnes(const MixResult& result) {
  std::vector<std::string> names;
  for (const Culprit& culprit : result.located.culprits) {
    names.push_back(result.located.nodes[culprit.report].key);
  }
  return names;
}

Graph UntoldGraph(const std::string& relu) {
  return GraphBuilder()
      .Input("x")
      .Input("y")
      .Op("sum", "add", {"x", "y"})
      .Op("pos", relu, {"sum"})
      .Op("out", "add", {"pos", "y"})
      .Head("out")
      .Build();
}

TEST(MixFixturesTest, NodesNeedNotSayWhatTheyComputeAndFunctionsMayBeRenamed) {
  const auto result =
      MixBuilds(UntoldBuild("new", UntoldGraph("copy"), TestKernels()),
                UntoldBuild("old", UntoldGraph("relu"), TestKernels()),
                {{"x", Floats({-1, 2, -3, 4})}, {"y", Floats({0, 1, 1, 0})}});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyOnes(*result), ElementsAre("pos"));
  EXPECT_EQ(result->located.nodes[0].reason,
            "function copy makes the difference that relu does not");
}

TEST(MixFixturesTest, BuildsOfOtherNetworksAreRefused) {
  Graph other = UntoldGraph("relu");
  other.nodes[2].name = "total";
  const auto result =
      MixBuilds(UntoldBuild("new", UntoldGraph("relu"), TestKernels()),
                UntoldBuild("old", other, TestKernels()), {});
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kInvalidArgument,
                                HasSubstr("node sum: is not in old")));
}

// Two releases of a real compiler made the libraries; one is spoiled.
TEST(MixFixturesTest, LibrariesOfRealCompilersAreMixed) {
  const std::string root = FixturesFolder();
  if (root.empty()) GTEST_SKIP() << "no fixtures";
  const auto load = [&](const std::string& release) {
    const auto files = FindArtefact(root + "/" + release + "/attn");
    return LoadArtefact(files.value());
  };
  auto old_build = load("tvm-0.25"), new_build = load("tvm-0.27");
  ASSERT_THAT(old_build, IsOk());
  ASSERT_THAT(new_build, IsOk());
  const std::string guilty =
      new_build->graph.nodes.back().function;  // The last node's.
  const auto inputs = OpenParams(root + "/tvm-0.27/attn/inputs.params");
  ASSERT_THAT(inputs, IsOk());
  const auto make = [](const std::string& name, Artefact artefact) {
    return GraphTarget::FromArtefact(name, std::move(artefact), {kCpu}).value();
  };
  const auto old_target = make("old", *old_build);
  const auto alike =
      MixBuilds(make("new", *new_build), old_target, inputs->tensors);
  ASSERT_THAT(alike, IsOk());
  EXPECT_FALSE(alike->located.AreOutputsWrong());
  Artefact spoiled = *new_build;
  spoiled.library =
      MakeRef<SpoiledLibrary>(spoiled.library, guilty, Times(1.01F));
  const auto result =
      MixBuilds(make("new", spoiled), old_target, inputs->tensors);
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->guilty.size(), 1U);
  EXPECT_EQ(result->functions[result->guilty[0].function].candidate, guilty);
}

}  // namespace
}  // namespace nodewise
