#include "nodewise/locate/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/planter/planter.h"
#include "nodewise/tensors/tensor_collector.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr int kChain = 4;

// x -> Tanh -> ... -> Tanh, a node each: "tanh0", "tanh1", ...
Lowered Chain() {
  NetBuilder b;
  ValueId x = b.In("x", {4});
  std::vector<ValueId> made;  // All are outputs, to be seen from outside.
  for (int i = 0; i < kChain; ++i) {
    const std::string name = "tanh" + std::to_string(i);
    x = b.Op("Tanh", {x}, {}, {name + "_y"}, name)[0];
    made.push_back(x);
  }
  b.Out(std::move(made));
  return Lower(b.net, "net", kPlain).value();
}

// What a run hands out, as a dump does: with what nodes made and not what they
// read.
TensorCollector RunOf(const Graph& graph, const Ref<Library>& library) {
  TensorCollector run("run");
  auto executor = GraphExecutor::Create(graph, library).value();
  const NDArray x = Floats({-1, 0.5, 1, 2});
  EXPECT_THAT(executor->SetInput(0, *x), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const TensorKey key{graph.nodes[n].name};
    const NDArray made = n == 0 ? x : executor->GetOutput(n - 1).value();
    TensorItem item{key};
    item.tensor = made.tensor();
    EXPECT_THAT(run.Consume(item), IsOk());
  }
  return run;
}

TEST(NodeCheckTest, ASoundRunHasNoWrongNode) {
  const Lowered lowered = Chain();
  TensorCollector run = RunOf(
      lowered.graph, BuiltInFunctions(AllOperators(), Backend::kReference));
  const auto checks =
      CheckNodes(GraphIndex(lowered.graph), AllOperators(), run);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->CountEqual(), size_t{kChain});
  EXPECT_EQ(checks->FirstWrong(), nullptr);
  EXPECT_TRUE(checks->skipped.empty());
}

TEST(NodeCheckTest, OnlyTheNodeThatMadeTheErrorIsWrong) {
  const Lowered lowered = Chain();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const auto planted =
        PlantScale(lowered.graph,
                   BuiltInFunctions(AllOperators(), Backend::kReference), seed);
    ASSERT_THAT(planted, IsOk());
    TensorCollector run = RunOf(planted->graph, planted->library);
    const auto checks =
        CheckNodes(GraphIndex(lowered.graph), AllOperators(), run);
    ASSERT_THAT(checks, IsOk());
    ASSERT_NE(checks->FirstWrong(), nullptr);
    EXPECT_EQ(checks->FirstWrong()->key, planted->fault.name);
    EXPECT_EQ(checks->CountEqual(), size_t{kChain - 1});
    EXPECT_NEAR(checks->FirstWrong()->Worst().metrics.scale,
                planted->fault.factor, 1e-6);
  }
}

TEST(NodeCheckTest, WhatANodeReadCountsMoreThanWhatWasMadeForIt) {
  const Lowered lowered = Chain();
  TensorCollector sound = RunOf(
      lowered.graph, BuiltInFunctions(AllOperators(), Backend::kReference));
  TensorCollector run("run");
  const NDArray overwritten = Floats({9, 9, 9, 9});
  for (const TensorCollector::Kept& kept : sound.kept()) {
    if (kept.key.node == "tanh2") {
      const TensorKey read{"tanh2", 0, TensorRole::kInput};
      TensorItem item{read};
      item.tensor = overwritten.tensor();
      ASSERT_THAT(run.Consume(item), IsOk());
    }
    TensorItem item{kept.key};
    item.tensor = kept.tensor.tensor();
    ASSERT_THAT(run.Consume(item), IsOk());
  }
  const auto checks =
      CheckNodes(GraphIndex(lowered.graph), AllOperators(), run);
  ASSERT_THAT(checks, IsOk());
  ASSERT_NE(checks->FirstWrong(), nullptr);
  EXPECT_EQ(checks->FirstWrong()->key, "tanh2");
}

TEST(NodeCheckTest, NodesThatDoNotSayWhatTheyComputeAreSkipped) {
  Lowered lowered = Chain();
  TensorCollector run = RunOf(
      lowered.graph, BuiltInFunctions(AllOperators(), Backend::kReference));
  lowered.graph.nodes[2].attrs.clear();
  const auto checks =
      CheckNodes(GraphIndex(lowered.graph), AllOperators(), run);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->nodes.size(), size_t{kChain - 1});
  ASSERT_EQ(checks->skipped.size(), 1U);
  EXPECT_EQ(checks->skipped[0].key, "tanh1");
  EXPECT_THAT(checks->skipped[0].why, HasSubstr("has no attribute"));
}

TEST(NodeCheckTest, OutputsInAnotherOrderThanTheGraphsAreNotChecked) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 2});
  const auto parts =
      b.Op("Split", {x}, {{"axis", 1}, {"num_outputs", 2}}, {"p", "q"}, "cut");
  b.Out({b.Op("Add", {parts[0], parts[1]}, {}, {"y"}, "sum")[0]});
  const Lowered lowered = Lower(b.net, "net", kPlain).value();
  const NDArray column = MakeTensor<float>({2, 1}, {1, 2});
  const NDArray whole = MakeTensor<float>({2, 2}, {1, 1, 2, 2});
  const NDArray sum = MakeTensor<float>({2, 1}, {2, 4});
  TensorCollector run("run");
  const auto take = [&run](const TensorKey& key, const NDArray& tensor) {
    TensorItem item{key};
    item.tensor = tensor.tensor();
    EXPECT_THAT(run.Consume(item), IsOk());
  };
  take({"x"}, whole);
  take({"cut", 1}, column);
  take({"cut", 0}, column);
  take({"sum"}, sum);
  NodeCheckOptions options;
  options.with_accumulated = true;
  const auto checks =
      CheckNodes(GraphIndex(lowered.graph), AllOperators(), run, options);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->CountEqual(), 1u);
  ASSERT_EQ(checks->skipped.size(), 1u);
  EXPECT_EQ(checks->skipped[0].key, "cut");
}

TEST(NodeCheckTest, ARunThatHandsOutNothingIsAnError) {
  const Lowered lowered = Chain();
  TensorCollector run("empty");
  EXPECT_THAT(CheckNodes(GraphIndex(lowered.graph), AllOperators(), run),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("empty: no node could be checked")));
}

}  // namespace
}  // namespace nodewise
