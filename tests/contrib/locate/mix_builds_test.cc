#include "nodewise/locate/mix_builds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const GraphTarget> BuildOf(const std::string& name, Graph graph,
                                           Ref<Library> library,
                                           std::vector<NamedTensor> params) {
  return GraphTarget::FromArtefact(
             name,
             {std::move(graph), std::move(library), Params{std::move(params)}},
             {kCpu})
      .value();
}

// y = tanh(softmax(tanh(sigmoid(x)) + bias)): Tanh is called twice.
Lowered MixedNet() {
  NetBuilder b;
  ValueId y = b.In("x", {6});
  y = b.Op("Sigmoid", {y}, {}, {"s"}, "gate")[0];
  y = b.Op("Tanh", {y}, {}, {"t"}, "first")[0];
  y = b.Op("Add", {y, b.Const("bias", Floats({1, -2, 0.5F, 3, 1, 2}))}, {},
           {"a"}, "sum")[0];
  y = b.Op("Softmax", {y}, {}, {"w"}, "weights")[0];
  b.Out({b.Op("Tanh", {y}, {}, {"y"}, "last")[0]});
  return Lower(b.net, "net", kPlain).value();
}

std::vector<NamedTensor> MixedInputs() {
  return {{"x", Floats({0.5F, -1, 2, 0.1F, -0.3F, 1})}};
}

absl::StatusOr<MixResult> MixSpoiled(Ref<Library> candidate) {
  const Lowered net = MixedNet();
  const auto sound =
      BuildOf("old", net.graph, ReferenceFunctions(), net.params);
  const auto other =
      BuildOf("new", net.graph, std::move(candidate), net.params);
  return MixBuilds(other, sound, MixedInputs());
}

std::vector<std::string> GuiltyNodes(const MixResult& result) {
  std::vector<std::string> names;
  for (const Culprit& culprit : result.located.culprits) {
    names.push_back(result.located.nodes[culprit.report].key);
  }
  return names;
}

TEST(MixBuildsTest, BuildsThatAgreeHaveNoGuiltyFunction) {
  const auto result = MixSpoiled(ReferenceFunctions());
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->located.AreOutputsWrong());
  EXPECT_EQ(result->runs, 2U);
}

TEST(MixBuildsTest, TheGuiltyFunctionIsNamedWithTheElementThatIsWrong) {
  const auto result = MixSpoiled(
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "softmax", Times(1.1F)));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre("weights"));
  const NodeReport& report = result->located.nodes[0];
  EXPECT_EQ(report.verdict, NodeVerdict::kBroken);
  ASSERT_TRUE(report.worst.has_value());
  EXPECT_NEAR(report.worst->metrics.scale, 1.1, 1e-5);
  EXPECT_NEAR(result->located.culprits[0].share.value(), 1, 1e-6);
}

TEST(MixBuildsTest, NodesThatShareAFunctionAreNamedTogether) {
  const auto result = MixSpoiled(
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "tanh", Times(1.1F)));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre("first"));
  EXPECT_THAT(result->located.nodes[0].reason,
              HasSubstr("2 nodes call it: first, last"));
}

TEST(MixBuildsTest, SeveralGuiltyFunctionsAreAllNamed) {
  Ref<Library> spoiled =
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "softmax", Times(1.3F));
  spoiled = MakeRef<SpoiledLibrary>(spoiled, "sigmoid", Times(0.8F));
  const auto result = MixSpoiled(spoiled);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre("gate", "weights"));
}

TEST(MixBuildsTest, ABuildThatIsNotDeterministicIsSaid) {
  const auto result = MixSpoiled(MakeRef<SpoiledLibrary>(
      ReferenceFunctions(), "softmax",
      [calls = std::make_shared<float>(0)](const DLTensor& made) {
        static_cast<float*>(made.data)[0] += 0.1F * ++*calls;
      }));
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("new: makes other bits")));
}

// Has a function of the other library crash.
Ref<Library> Crashing(Ref<Library> sound, const std::string& word) {
  return MakeRef<SpoiledLibrary>(std::move(sound), word,
                                 [](const DLTensor&) { std::raise(SIGFPE); });
}

TEST(MixBuildsTest, AFunctionThatCrashesIsGuiltyAndOthersAreStillFound) {
  const auto wrong =
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "sigmoid", Times(0.8F));
  const auto result = MixSpoiled(Crashing(wrong, "tanh"));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre("gate", "first"));
  const LocateResult& located = result->located;
  EXPECT_EQ(located.nodes[0].verdict, NodeVerdict::kBroken);
  EXPECT_NEAR(located.culprits[0].share.value(), 1, 1e-6);
  EXPECT_EQ(located.nodes[1].verdict, NodeVerdict::kCrashes);
  EXPECT_THAT(located.nodes[1].reason,
              AllOf(HasSubstr("crashed with SIGFPE, in function"),
                    HasSubstr("2 nodes call it: first, last")));
  EXPECT_THAT(located.stand_ins, ElementsAre("first", "last"));
}

TEST(MixBuildsTest, ACrashAloneLeavesNoErrorOfTheOutputs) {
  const auto result = MixSpoiled(Crashing(ReferenceFunctions(), "softmax"));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre("weights"));
  ASSERT_EQ(result->guilty.size(), 1U);
  EXPECT_FALSE(result->located.AreOutputsWrong());
  EXPECT_TRUE(result->questions.empty());
}

TEST(MixBuildsTest, AFunctionThatHangsIsGuilty) {
  const Lowered net = MixedNet();
  const auto hanging = MakeRef<SpoiledLibrary>(
      ReferenceFunctions(), "softmax", [](const DLTensor&) {
        std::this_thread::sleep_for(std::chrono::hours(1));
      });
  const auto result =
      MixBuilds(BuildOf("new", net.graph, hanging, net.params),
                BuildOf("old", net.graph, ReferenceFunctions(), net.params),
                MixedInputs(), {.node_limit_ms = 300});
  ASSERT_THAT(result, IsOk());
  ASSERT_THAT(GuiltyNodes(*result), ElementsAre("weights"));
  EXPECT_EQ(result->located.nodes[0].verdict, NodeVerdict::kHangs);
}

TEST(MixBuildsTest, AReferenceThatCrashesIsAnErrorAndAccusesNoNode) {
  const Lowered net = MixedNet();
  const auto old_build = BuildOf(
      "old", net.graph, Crashing(ReferenceFunctions(), "softmax"), net.params);
  const auto result =
      MixBuilds(BuildOf("new", net.graph, ReferenceFunctions(), net.params),
                old_build, MixedInputs());
  EXPECT_THAT(result, FailsWith(absl::StatusCode::kAborted,
                                AllOf(HasSubstr("weights"), HasSubstr("SIGFPE"),
                                      HasSubstr("it is taken for right"))));
}

TEST(MixBuildsTest, AFunctionThatCrashesOnWhatTheReferenceMakesIsGuilty) {
  // Both are the candidate's, and each is used to what the other one makes.
  Ref<Library> odd =
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "sigmoid", Times(-1));
  odd = MakeRef<SpoiledLibrary>(odd, "softmax", [](const DLTensor& made) {
    // This one is 0.005 where the gate is negative, and 0.003 else.
    if (static_cast<const float*>(made.data)[1] < 0.004F) std::raise(SIGFPE);
  });
  const auto result = MixSpoiled(odd);
  ASSERT_THAT(result, IsOk());
  for (const NodeReport& report : result->located.nodes) {
    if (report.key != "weights") continue;
    EXPECT_EQ(report.verdict, NodeVerdict::kCrashes);
    EXPECT_THAT(report.reason, HasSubstr("not in new as it is"));
    return;
  }
  ADD_FAILURE() << "weights is not accused";
}

TEST(MixBuildsTest, AnErrorThatNoFunctionMakesIsInTheStorage) {
  const Lowered net = MixedNet();
  Graph graph = net.graph;
  const GraphIndex index(net.graph);
  // The bias lies where the first result does.
  graph.entries[Index(index.FindEntry("first").value())].storage_id =
      graph.entry(index.FindEntry("bias").value()).storage_id;
  const auto result =
      MixBuilds(BuildOf("new", graph, ReferenceFunctions(), net.params),
                BuildOf("old", net.graph, ReferenceFunctions(), net.params),
                MixedInputs());
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->is_in_storage);
  EXPECT_THAT(GuiltyNodes(*result), ElementsAre());
}

}  // namespace
}  // namespace nodewise
