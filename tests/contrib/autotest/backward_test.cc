#include "nodewise/autotest/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nodewise/autotest/autotest_run.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/sampled_bounds.h"
#include "nodewise/onednn/onednn_backward.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using testing::Key;
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

// The reference, with gradients that `change` may spoil.
std::unique_ptr<Candidate> WithGradients(
    std::function<void(std::vector<NDArray>& gradients)> change) {
  const auto forward = [](const Network& network,
                          const std::vector<NDArray>& inputs) {
    return CandidateOutputs(Interpret(network, inputs));
  };
  return CallableCandidate(
      "own", forward,
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

TEST(BackwardTest, NobodyCanTellWhereAGradientIsNotFinite) {
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

// Whatever oneDNN has no backward primitive for is refused.
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

}  // namespace
}  // namespace nodewise
