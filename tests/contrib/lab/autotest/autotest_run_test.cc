#include "nodewise/autotest/autotest_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Le;

std::vector<const OperatorDef*> RowsOf(const std::vector<std::string>& names) {
  std::vector<const OperatorDef*> rows;
  for (const std::string& name : names) {
    rows.push_back(AllOperators().Find("", name, kNewestOpset));
  }
  return rows;
}

// The reference, whose outputs `change` may spoil.
std::unique_ptr<Candidate> Changed(
    std::function<void(const Network& network, std::vector<NDArray>& outputs)>
        change) {
  return CallableCandidate(
      "changed",
      [change](const Network& network,
               const std::vector<NDArray>& inputs) -> CandidateOutputs {
        auto outputs = Interpret(network, inputs);
        if (outputs.ok()) change(network, *outputs);
        return outputs;
      });
}

AutotestOptions Runs(uint64_t runs) {
  AutotestOptions options;
  options.seed = 3;
  options.runs = runs;
  return options;
}

// OF-01, OF-13
TEST(AutotestRunTest, ASoundCandidateIsNotAccused) {
  const auto sound = Changed([](const Network&, std::vector<NDArray>&) {});
  const AutotestResult result = RunAutotest(
      RowsOf({"Conv", "Add", "Relu", "MatMul", "Softmax", "Concat"}), *sound,
      Runs(2000));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.CountOf(CaseOutcome::kAgrees) +
                result.CountOf(CaseOutcome::kReferenceRefuses),
            2000U);
}

// OF-06
TEST(AutotestRunTest, AWrongTailIsFoundAndShrunk) {
  const auto faulty = Changed([](const Network&, std::vector<NDArray>& out) {
    if (out[0].dtype() != kFloat32 || CountOf(out[0]) % 8 != 1) return;
    out[0].As<float>()[CountOf(out[0]) - 1] += 1;
  });
  const AutotestResult result =
      RunAutotest(RowsOf({"Add"}), *faulty, Runs(2000));
  ASSERT_FALSE(result.findings.empty());
  const AutotestFinding& finding = result.findings[0];
  EXPECT_EQ(finding.verdict.outcome, CaseOutcome::kMismatch);
  EXPECT_EQ(CountOf((*finding.expected)[0]), 1);
  EXPECT_THAT(ToDoubles(finding.set.inputs[0]), Each(0));
}

// OF-12
TEST(AutotestRunTest, AnAttributeThatIsIgnoredIsFoundAndShrunk) {
  // It computes as if there were no dilations.
  const auto faulty = CallableCandidate(
      "faulty",
      [](const Network& network,
         const std::vector<NDArray>& inputs) -> CandidateOutputs {
        const Operation& operation = network.operation(network.order()[0]);
        ops::Conv conv = *operation.attrs.As<ops::Conv>();
        for (int64_t& dilation : conv.dilations) dilation = 1;
        Tensors tensors;
        size_t at = 0;
        for (const ValueId input : operation.inputs) {
          const NetworkValue& value = network.value(input);
          tensors.push_back(value.data.defined() ? value.data : inputs[at++]);
        }
        const bool wanted[] = {true};
        auto made = Evaluate(OpAttrs::From(&operation.def(), conv),
                             std::move(tensors), wanted);
        if (!made.ok()) return made.status();
        return std::vector<NDArray>{made->outputs[0]};
      });
  const AutotestResult result =
      RunAutotest(RowsOf({"Conv"}), *faulty, Runs(4000));
  ASSERT_FALSE(result.findings.empty());
  const Configuration& made = result.findings[0].made.configuration;
  EXPECT_THAT(ToString(made), HasSubstr("dilations"));
  for (const CaseInput& input : made.inputs) {
    EXPECT_THAT(input.shape, Each(Le(3)));
  }
}

TEST(AutotestRunTest, ACrashIsFoundAndTheOthersAreStillJudged) {
  const auto crashing = GuardedCandidate(
      Changed([](const Network& network, std::vector<NDArray>& out) {
        const bool is_relu =
            network.operation(network.order()[0]).kind() == "Relu";
        if (is_relu && out[0].shape().size() == 3) std::abort();
      }),
      5000);
  AutotestOptions options = Runs(320);
  options.most_tries = 20;
  const AutotestResult result =
      RunAutotest(RowsOf({"Relu", "Add"}), *crashing, options);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].verdict.outcome, CaseOutcome::kCrash);
  EXPECT_THAT(result.findings[0].verdict.reason, HasSubstr("SIGABRT"));
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 160U);
}

TEST(AutotestRunTest, AHangIsFound) {
  const auto hanging =
      GuardedCandidate(Changed([](const Network&, std::vector<NDArray>& out) {
                         while (out[0].shape().size() == 2) {
                         }
                       }),
                       100);
  AutotestOptions options = Runs(64);
  options.most_tries = 0;
  options.sets = 1;
  const AutotestResult result =
      RunAutotest(RowsOf({"Relu"}), *hanging, options);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].verdict.outcome, CaseOutcome::kHang);
}

TEST(AutotestRunTest, AFindingThatComesAndGoesIsFlaky) {
  int calls = 0;
  const auto flaky = Changed([&calls](const Network&,
                                      std::vector<NDArray>& out) {
    if (out[0].dtype() == kFloat32 && CountOf(out[0]) > 0 && ++calls % 2 == 0) {
      out[0].As<float>()[0] += 1;
    }
  });
  const AutotestResult result = RunAutotest(RowsOf({"Neg"}), *flaky, Runs(320));
  ASSERT_FALSE(result.findings.empty());
  EXPECT_TRUE(result.findings[0].is_flaky);
}

// What each configuration of a run was, in order.
class Recorder {
 public:
  explicit Recorder(AutotestOptions options) {
    const auto candidate = CallableCandidate(
        "recorder",
        [this](const Network& network,
               const std::vector<NDArray>& inputs) -> CandidateOutputs {
          std::string text;
          for (const NDArray& input : inputs) {
            text += ToString(TensorType::From(*input));
            for (const double x : ToDoubles(input)) text += std::to_string(x);
          }
          seen_.insert(text);
          return Interpret(network, inputs);
        });
    RunAutotest(RowsOf({"Conv", "Add", "Relu"}), *candidate, options);
  }
  const std::multiset<std::string>& seen() const { return seen_; }

 private:
  std::multiset<std::string> seen_;
};

TEST(AutotestRunTest, TheSameSeedGivesTheSameCases) {
  EXPECT_EQ(Recorder(Runs(300)).seen(), Recorder(Runs(300)).seen());
  AutotestOptions other = Runs(300);
  other.seed = 4;
  EXPECT_NE(Recorder(Runs(300)).seen(), Recorder(other).seen());
}

TEST(AutotestRunTest, ShardsTogetherAreTheWholeRun) {
  std::multiset<std::string> all;
  for (uint64_t shard = 0; shard < 4; ++shard) {
    AutotestOptions options = Runs(300);
    options.shard = shard;
    options.shards = 4;
    const Recorder part(options);
    all.insert(part.seen().begin(), part.seen().end());
  }
  EXPECT_EQ(all, Recorder(Runs(300)).seen());
}

TEST(AutotestRunTest, LoweredNetworksAgree) {
  const auto graph = LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
  const AutotestResult result =
      RunAutotest(RowsOf({"Conv", "Add", "Transpose"}), *graph, Runs(480));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.CountOf(CaseOutcome::kCandidateRefuses), 0U);
}

// OF-01
TEST(AutotestRunTest, EmittedCAgrees) {
  const auto emitted =
      EmittedCandidate(AllOperators(), CCompiler::Create().value(), "-O1");
  const AutotestResult result = RunAutotest(
      RowsOf({"Conv", "Add", "Relu", "MatMul"}), *emitted, Runs(640));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 300U);
}

// OFc-02
TEST(AutotestRunTest, WhatDoesNotCompileIsFoundAlone) {
  const std::string folder = testing::TempDir() + "/picky_autotest";
  std::filesystem::create_directories(folder);
  const std::string compiler = folder + "/cc.sh";
  std::ofstream(compiler) << "#!/bin/sh\n"
                             "for file; do case $file in *.c)\n"
                             "grep -q tanh \"$file\" && exit 1;; esac; done\n"
                             "exec cc \"$@\"\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const auto emitted = EmittedCandidate(
      AllOperators(), CCompiler::Create(compiler).value(), "-O2");
  AutotestOptions options = Runs(96);
  options.most_tries = 0;
  const AutotestResult result =
      RunAutotest(RowsOf({"Neg", "Tanh", "Transpose"}), *emitted, options);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].made.configuration.def->name, "Tanh");
  EXPECT_THAT(result.findings[0].verdict.reason,
              HasSubstr("cc.sh: ended with status 1, expected 0"));
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 0U);
}

// OFc-02, OFc-03
TEST(CaseVerdictTest, WhoRefusesIsTold) {
  std::vector<uint64_t> values;
  uint64_t refused = 0;
  const OperatorCase made =
      DrawNumber(RowsOf({"Relu"}), 1, 0, &values, &refused).value();
  const CaseReference reference(*made.network);
  const auto judged = [&reference](const CandidateOutputs& expected,
                                   const CandidateOutputs& actual) {
    return NameOf(reference.Judge({}, expected, actual).outcome);
  };
  const CandidateOutputs some = std::vector<NDArray>();
  const CandidateOutputs none = absl::UnimplementedError("not here");
  EXPECT_EQ(judged(some, some), "agrees");
  EXPECT_EQ(judged(none, some), "reference refuses");
  EXPECT_EQ(judged(none, none), "both refuse");
  EXPECT_EQ(judged(some, none), "candidate refuses");
  EXPECT_EQ(judged(some, absl::InternalError("failed")), "candidate refuses");
  EXPECT_EQ(judged(some, absl::AbortedError("ended")), "crash");
  EXPECT_EQ(judged(some, absl::DeadlineExceededError("late")), "hang");
}

TEST(JoinNetworksTest, NetworksKeepTheirResults) {
  std::vector<std::shared_ptr<const Network>> networks;
  std::vector<const Network*> parts;
  std::vector<NDArray> inputs;
  std::vector<NDArray> expected;
  const std::vector<const OperatorDef*> rows = RowsOf({"Relu", "Add"});
  for (uint64_t number = 0; number < 6; ++number) {
    std::vector<uint64_t> values;
    uint64_t refused = 0;
    Choices choices{RandomSource(number)};
    OperatorCase made = DrawNumber(rows, 1, number, &values, &refused).value();
    // All of one opset.
    made.configuration.opset = kNewestOpset;
    networks.push_back(
        std::make_shared<const Network>(NetworkOf(made.configuration).value()));
    parts.push_back(networks.back().get());
    const auto drawn = DrawInputs(made.configuration, &choices).value();
    inputs.insert(inputs.end(), drawn.begin(), drawn.end());
    const auto outputs = Interpret(*parts.back(), drawn).value();
    expected.insert(expected.end(), outputs.begin(), outputs.end());
  }
  const auto joined = JoinNetworks(parts);
  ASSERT_THAT(joined, IsOk());
  const auto outputs = Interpret(*joined, inputs);
  ASSERT_THAT(outputs, IsOk());
  ASSERT_EQ(outputs->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(ToDoubles((*outputs)[i]), ToDoubles(expected[i]));
  }
}

}  // namespace
}  // namespace nodewise
