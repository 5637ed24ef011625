#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/network_draw.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/unary.h"
#include "nodewise/regions/built_in_functions.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::vector<const OperatorDef*> OperatorsNamed(
    const std::vector<std::string>& names) {
  std::vector<const OperatorDef*> rows;
  for (const std::string& name : names) {
    rows.push_back(AllOperators().Find("", name, kNewestOpset));
  }
  return rows;
}

AutotestOptions OptionsWith(AutotestWith with, uint64_t runs) {
  AutotestOptions options;
  options.seed = 5;
  options.runs = runs;
  options.with = with;
  return options;
}

CandidateOutputs InterpretNetwork(const Network& network,
                                  const std::vector<NDArray>& inputs) {
  return Interpret(network, inputs);
}

// The reference, with gradients that `change` may spoil.
std::unique_ptr<Candidate> WithGradients(
    std::function<void(std::vector<NDArray>& gradients)> change) {
  return CallableCandidate(
      "own", &InterpretNetwork,
      [change](const BackwardCase& backward,
               const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto made = GradientOf(backward.forward, backward.inputs);
        if (!made.ok()) return made.status();
        auto gradients = Interpret(made->network, inputs);
        if (gradients.ok()) change(*gradients);
        return gradients;
      });
}

// OF-05
TEST(BackwardTest, ASoundGradientIsNotAccused) {
  const auto sound = WithGradients([](std::vector<NDArray>&) {});
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Conv", "MatMul", "Relu", "Softmax",
                                  "LayerNormalization"}),
                  *sound, OptionsWith(AutotestWith::kBackward, 1000));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.CountOf(CaseOutcome::kAgrees), 1000U);
}

TEST(BackwardTest, CotangentsAreAsLongAsWhatNumbersMake) {
  const auto sound = WithGradients([](std::vector<NDArray>&) {});
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Compress", "Unique"}), *sound,
                  OptionsWith(AutotestWith::kBackward, 200));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.CountOf(CaseOutcome::kAgrees), 200U);
}

TEST(BackwardTest, AGradientThatIsNotFiniteIsInconclusive) {
  const auto other = WithGradients([](std::vector<NDArray>& gradients) {
    std::vector<double> numbers = ToDoubles(gradients[0]);
    for (double& x : numbers) x = std::isfinite(x) ? x : 0;
    StoreDoubles(numbers.data(), 0, CountOf(gradients[0]), gradients[0]);
  });
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Log"}), *other,
                  OptionsWith(AutotestWith::kBackward, 500));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kInconclusive), 0U);
}

TEST(BackwardTest, AWrongGradientIsFoundAndShrunk) {
  const auto wrong = WithGradients([](std::vector<NDArray>& gradients) {
    if (gradients[0].dtype() != kFloat32 || CountOf(gradients[0]) < 2) return;
    gradients[0].As<float>()[1] *= 2;
  });
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Softmax"}), *wrong,
                  OptionsWith(AutotestWith::kBackward, 1000));
  ASSERT_FALSE(result.findings.empty());
  const AutotestFinding& finding = result.findings[0];
  EXPECT_EQ(finding.verdict.outcome, CaseOutcome::kMismatch);
  ASSERT_NE(finding.made.backward, nullptr);
  EXPECT_LE(CountOf((*finding.expected)[0]), 3);
}

TEST(BackwardTest, BothAreTwoTurnsOfAnOperator) {
  const auto sound = WithGradients([](std::vector<NDArray>&) {});
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Mul", "Floor", "Shape"}), *sound,
                  OptionsWith(AutotestWith::kBoth, 200));
  EXPECT_THAT(result.operators,
              UnorderedElementsAre(Key("Mul 7"), Key("Mul 7 backward"),
                                   Key("Floor 1"), Key("Shape 1")));
}

TEST(BackwardTest, WhatACandidateHasNoGradientForRunsAsANetwork) {
  size_t networks = 0;
  const auto candidate = CallableCandidate(
      "own",
      [&networks](const Network& network, const std::vector<NDArray>& inputs) {
        ++networks;
        return CandidateOutputs(Interpret(network, inputs));
      },
      [](const BackwardCase&, const std::vector<NDArray>&) {
        return CandidateOutputs(absl::UnimplementedError("none"));
      });
  const AutotestResult result =
      RunAutotest(OperatorsNamed({"Tanh"}), *candidate,
                  OptionsWith(AutotestWith::kBackward, 100));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(networks, 100U);
}

// Cases that oneDNN has no backward primitive for are refused.
TEST(BackwardTest, EveryBackwardPrimitiveAgreesWithTheGradientNetwork) {
  const std::vector<std::string_view> names = OneDnnBackwardOperators();
  const auto candidate = CallableCandidate(
      "onednn",
      [](const Network&, const std::vector<NDArray>&) {
        return CandidateOutputs(absl::UnimplementedError("no primitive"));
      },
      OneDnnBackward());
  for (const std::string_view name : names) {
    const AutotestResult result =
        RunAutotest(OperatorsNamed({std::string(name)}), *candidate,
                    OptionsWith(AutotestWith::kBackward, 16 * 40));
    const OperatorCount& count = result.operators.begin()->second;
    EXPECT_GE(result.CountOf(CaseOutcome::kAgrees), 16U)
        << name << ": " << count.why_refused;
    for (const AutotestFinding& finding : result.findings) {
      ADD_FAILURE() << ToString(finding.made.configuration) << ": "
                    << NameOf(finding.verdict.outcome) << ": "
                    << finding.verdict.reason;
    }
  }
}

TEST(BackwardTest, WhatDecidesOnShapesIsAConstant) {
  const OperatorDef& def = *AllOperators().Find("", "Reshape", kNewestOpset);
  for (uint64_t i = 0; i < 50; ++i) {
    Choices choices(RandomSource(i, "reshape"));
    const auto made = DrawCase(def, true, &choices);
    if (!made.ok()) continue;
    EXPECT_EQ(made->backward->forward.inputs().size(), 1U);
    EXPECT_EQ(made->network->inputs().size(), 2U);
  }
}

// Which of two whole numbers is next to a half depends on how a kernel divides.
TEST(BackwardTest, SampledBoundsAllowOtherRoundingsToIntegers) {
  Network network("net");
  const ValueId x = *network.AddInput("x", TensorType(kFloat32, {1}));
  NDArray scale = *NDArray::Empty({}, kFloat32, kCpu);
  *scale.As<float>() = 1;
  NDArray zero = *NDArray::Empty({}, kInt8, kCpu);
  *zero.As<int8_t>() = 3;
  const ValueId whole = *network.Add(AllOperators(), ops::QuantizeLinear{},
                                     {x, *network.AddConstant("scale", scale),
                                      *network.AddConstant("zero", zero)});
  ops::Cast cast;
  cast.to = kFloat32;
  ASSERT_THAT(network.SetOutputs({*network.Add(AllOperators(), cast, {whole})}),
              IsOk());
  NDArray half = *NDArray::Empty({1}, kFloat32, kCpu);
  *half.As<float>() = 116.5;
  const auto bounds = SampledBounds(network, {half});
  ASSERT_THAT(bounds, IsOk());
  EXPECT_GE((*bounds)[0].proved[0], 1);
}

TEST(BackwardTest, SampledBoundsAllowWhatOtherOrdersMake) {
  // (x + y) - x: what is lost of y is not seen in the result.
  Network network("net");
  const TensorType one(kFloat32, {1});
  const ValueId x = *network.AddInput("x", one);
  const ValueId y = *network.AddInput("y", one);
  const ValueId sum = *network.Add(AllOperators(), ops::Add{}, {x, y});
  ASSERT_THAT(
      network.SetOutputs({*network.Add(AllOperators(), ops::Sub{}, {sum, x})}),
      IsOk());
  NDArray large = *NDArray::Empty({1}, kFloat32, kCpu);
  NDArray small = *NDArray::Empty({1}, kFloat32, kCpu);
  *large.As<float>() = 16777216;  // 2^24
  *small.As<float>() = 1.25F;
  const auto bounds = SampledBounds(network, {large, small});
  ASSERT_THAT(bounds, IsOk());
  EXPECT_GE((*bounds)[0].proved[0], 1);
  EXPECT_LE((*bounds)[0].proved[0], 64);
}

NetworkScope ScopeOfSome(const std::vector<std::string>& names) {
  const std::vector<const OperatorDef*> rows = OperatorsNamed(names);
  return ScopeOf(rows);
}

AutotestOptions NetworkRuns(AutotestWith with, uint64_t runs) {
  AutotestOptions options = OptionsWith(with, runs);
  options.sets = 4;
  options.most_shrinking_seconds = 10;
  return options;
}

std::unique_ptr<Candidate> ReferenceGraph() {
  return LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
}

std::unique_ptr<CaseSource> AllNetworks() {
  static const std::vector<const OperatorDef*> rows = [] {
    std::vector<const OperatorDef*> all;
    for (const OperatorDef* row : AllOperators().rows()) {
      if (HasSpace(*row)) all.push_back(row);
    }
    return all;
  }();
  return NetworkSource(ScopeOf(rows));
}

std::unique_ptr<CaseSource> BothOfNetworks() {
  return AlternatingCases(AllNetworks(), GradientSource(AllNetworks()));
}

TEST(BackwardOfNetworksTest, LoweredGradientsAgree) {
  const auto graph = ReferenceGraph();
  const AutotestResult result =
      RunAutotest(*GradientSource(AllNetworks()), *graph,
                  NetworkRuns(AutotestWith::kBackward, 2000));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 1900U);
}

TEST(BackwardOfNetworksTest, BothTakeTurns) {
  const auto graph = ReferenceGraph();
  const AutotestResult result = RunAutotest(
      *BothOfNetworks(), *graph, NetworkRuns(AutotestWith::kBoth, 80));
  EXPECT_THAT(result.operators,
              UnorderedElementsAre(Key("networks"), Key("networks backward")));
  EXPECT_EQ(result.operators.at("networks").configurations, 10U);
}

// What the operations that are left make is there, and so is what they read.
TEST(BackwardOfNetworksTest, OperationsWithoutAGradientAreLeftOut) {
  const OpSet& ops = AllOperators();
  Network net("net");
  ASSERT_THAT(net.SetOpset("ai.onnx.ml", 1), IsOk());
  const ValueId x = *net.AddInput("x", TensorType(kFloat32, {1, 2}));
  const ValueId sine = *net.Add(ops, ops::Sin{}, {x});
  const OperatorDef& joiner = *ops.Find("ai.onnx.ml", "FeatureVectorizer", 1);
  ASSERT_EQ(GradientKindOf(joiner), std::nullopt);
  const auto attrs =
      MakeAttrs(joiner, {{"inputdimensions", std::vector<int64_t>{2}}});
  ASSERT_THAT(attrs, IsOk());
  const auto joined = net.AddOperation({*attrs, {sine}});
  ASSERT_THAT(joined, IsOk());
  const ValueId y =
      *net.Add(ops, ops::Tanh{}, {net.operation(*joined).outputs[0]});
  ASSERT_THAT(net.SetOutputs({y}), IsOk());
  OperatorCase made;
  made.configuration.inputs = {{true, kFloat32, {1, 2}}};
  made.network = std::make_shared<const Network>(std::move(net));
  const auto backward = BackwardOf(made);
  ASSERT_THAT(backward, IsOk());
  EXPECT_EQ(TitleOf(*backward), "Sin_Tanh");
  EXPECT_EQ(backward->backward->outputs.size(), 2U);
  EXPECT_EQ(backward->backward->inputs.size(), 2U);
}

TEST(BackwardOfNetworksTest, ANetworkThatNothingGoesThroughIsRefused) {
  const OpSet& ops = AllOperators();
  Network net("net");
  const ValueId x = *net.AddInput("x", TensorType(kFloat32, {1, 2}));
  ASSERT_THAT(net.SetOutputs({*net.Add(ops, ops::Floor{}, {x})}), IsOk());
  OperatorCase made;
  made.configuration.inputs = {{true, kFloat32, {1, 2}}};
  made.network = std::make_shared<const Network>(std::move(net));
  EXPECT_THAT(BackwardOf(made), FailsWith(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("nothing reaches")));
}

std::multiset<std::string> SeenBy(uint64_t shard, uint64_t shards) {
  std::multiset<std::string> seen;
  const auto recorder = CallableCandidate(
      "recorder",
      [&seen](const Network& network, const std::vector<NDArray>& inputs) {
        std::string text = NetworkToText(network.data());
        for (const NDArray& input : inputs) {
          for (const double x : ToDoubles(input)) text += std::to_string(x);
        }
        seen.insert(text);
        return InterpretNetwork(network, inputs);
      });
  AutotestOptions options = NetworkRuns(AutotestWith::kBoth, 120);
  options.shard = shard;
  options.shards = shards;
  RunAutotest(*BothOfNetworks(), *recorder, options);
  return seen;
}

TEST(BackwardOfNetworksTest, ShardsTogetherAreTheWholeRun) {
  std::multiset<std::string> all;
  for (uint64_t shard = 0; shard < 3; ++shard) all.merge(SeenBy(shard, 3));
  EXPECT_EQ(all, SeenBy(0, 1));
}

// The gradient is that of a network in which each Tanh is a Sin.
std::unique_ptr<Candidate> WithWrongTanh() {
  return CallableCandidate(
      "wrong", &InterpretNetwork,
      [](const BackwardCase& backward,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        Network forward = backward.forward;
        const std::vector<OperationId> order(forward.order().begin(),
                                             forward.order().end());
        for (const OperationId id : order) {
          const Operation operation = forward.operation(id);
          if (operation.kind() != "Tanh") continue;
          const auto made =
              forward.Add(AllOperators(), ops::Sin{}, operation.inputs);
          if (!made.ok()) return made.status();
          const absl::Status replaced =
              forward.ReplaceUses({operation.outputs[0]}, {*made});
          if (!replaced.ok()) return replaced;
        }
        const auto gradient = GradientOf(forward, backward.inputs);
        if (!gradient.ok()) return gradient.status();
        return Interpret(gradient->network, inputs);
      });
}

TEST(BackwardOfNetworksTest, AWrongGradientIsCutToItsOperation) {
  const auto source = GradientSource(NetworkSource(ScopeOfSome(
      {"Tanh", "Mul", "MatMul", "Transpose", "Softmax", "Exp", "Floor"})));
  AutotestOptions options = NetworkRuns(AutotestWith::kBackward, 200);
  // Cutting to the end takes half a minute under a sanitizer.
  options.most_shrinking_seconds = 120;
  const AutotestResult result = RunAutotest(*source, *WithWrongTanh(), options);
  ASSERT_FALSE(result.findings.empty());
  for (const AutotestFinding& finding : result.findings) {
    EXPECT_EQ(TitleOf(finding.made), "Tanh");
    EXPECT_THAT(finding.cause, HasSubstr("Tanh, backward"));
    EXPECT_EQ(finding.verdict.outcome, CaseOutcome::kMismatch);
  }
}

// A candidate without ScatterElements computes no gradient of Gather.
TEST(BackwardOfNetworksTest, WhatACandidateHasNoGradientForIsNotDrawn) {
  const auto candidate = CallableCandidate(
      "own", [](const Network& network, const std::vector<NDArray>& inputs) {
        for (const OperationId id : network.order()) {
          if (network.operation(id).kind() != "ScatterElements") continue;
          return CandidateOutputs(absl::UnimplementedError("no scattering"));
        }
        return InterpretNetwork(network, inputs);
      });
  const auto rows = OperatorsNamed({"Gather", "Tanh", "Shape"});
  EXPECT_THAT(ScopeOf(rows, *candidate, 1).rows, SizeIs(3));
  EXPECT_THAT(ScopeOf(rows, *candidate, 1, AutotestWith::kBackward).rows,
              ElementsAre(rows[1], rows[2]));
}

// What a candidate knows of one operation is not asked where an input is read
// twice.
TEST(BackwardOfNetworksTest, OneDnnSumsUpWhatReachesAnInputOnTwoWays) {
  Network net("net");
  const ValueId x = *net.AddInput("x", TensorType(kFloat32, {2, 2}));
  ASSERT_THAT(net.SetOutputs({*net.Add(AllOperators(), ops::MatMul{}, {x, x})}),
              IsOk());
  NDArray ones = *NDArray::Empty({2, 2}, kFloat32, kCpu);
  std::fill_n(ones.As<float>(), 4, 1.0F);
  const BackwardCase backward{net, {0}, {0}};
  EXPECT_EQ(OneDnnBackward()(backward, {ones, ones}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace nodewise
