#include "nodewise/autotest/network_draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/lower/lower.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/planter/planter.h"
#include "nodewise/regions/built_in_functions.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

std::vector<const OperatorDef*> AllRows() {
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (HasSpace(*row)) rows.push_back(row);
  }
  return rows;
}

TEST(NetworkDrawTest, EveryOperatorIsReached) {
  const std::vector<const OperatorDef*> rows = AllRows();
  std::set<std::string> missing;
  for (const OperatorDef* row : rows) missing.emplace(row->name);
  const auto source = NetworkSource(ScopeOf(rows));
  for (uint64_t number = 0; number < 20000 && !missing.empty(); ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto made = DrawNumber(*source, 1, number, &choices, &refused);
    ASSERT_THAT(made, IsOk());
    for (const OperationId id : made->network->order()) {
      missing.erase(std::string(made->network->operation(id).kind()));
    }
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

TEST(NetworkDrawTest, ControlFlowAndPatternsAreReached) {
  const std::vector<const OperatorDef*> rows = AllRows();
  const auto source = NetworkSource(ScopeOf(rows));
  std::map<std::string, int> counts;
  int with_shared = 0;
  for (uint64_t number = 0; number < 1000; ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto made = DrawNumber(*source, 1, number, &choices, &refused);
    ASSERT_THAT(made, IsOk());
    bool is_shared = false;
    for (const OperationId id : made->network->order()) {
      const Operation& operation = made->network->operation(id);
      ++counts[std::string(operation.kind())];
      for (const ValueId output : operation.outputs) {
        is_shared = is_shared || (output != kNoValue &&
                                  made->network->value(output).uses.size() > 1);
      }
    }
    if (is_shared) ++with_shared;
  }
  for (const char* kind : {"If", "Loop", "Scan", "Conv", "BatchNormalization",
                           "Softmax", "Erf", "QuantizeLinear"}) {
    EXPECT_GT(counts[kind], 10) << kind;
  }
  EXPECT_GT(with_shared, 200);
}

// OF-46
TEST(NetworkDrawTest, LoweredNetworksAgree) {
  const std::vector<const OperatorDef*> rows = AllRows();
  const auto graph = LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
  AutotestOptions options;
  options.seed = 3;
  options.runs = 2000;
  options.sets = 4;
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *graph, options);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 1800U);
}

// 1 / -x of 0, which is infinite in either direction for who drops the sign.
TEST(NetworkVerdictTest, WhatHangsOnTheSignOfAZeroIsInconclusive) {
  Network net("net");
  const auto x = net.AddInput("x", TensorType(kFloat32, {1})).value();
  const OpSet& ops = AllOperators();
  const auto negative = net.Add(ops, ops::Neg{}, {x}).value();
  const auto y = net.Add(ops, ops::Reciprocal{}, {negative}).value();
  ASSERT_THAT(net.SetOutputs({y}), IsOk());
  const auto tensor = [](float number) {
    const NDArray one = NDArray::Empty({1}, kFloat32, kCpu).value();
    *one.As<float>() = number;
    return one;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const CaseReference reference(net);
  for (const auto& [input, found, outcome] :
       {std::tuple(0.0F, infinity, CaseOutcome::kInconclusive),
        std::tuple(2.0F, 0.5F, CaseOutcome::kMismatch)}) {
    const ValueSet set{{tensor(input)}};
    const CandidateOutputs expected = reference.Run(set.inputs);
    EXPECT_EQ(
        reference.Judge(set, expected, std::vector<NDArray>{tensor(found)})
            .outcome,
        outcome);
  }
}

// An operator that says nothing of NaN does not get one from what is before it.
TEST(NetworkVerdictTest, WhatAnOperatorLeavesOpenIsNotAsked) {
  Network net("net");
  const auto x = net.AddInput("x", TensorType(kFloat32, {1})).value();
  const OpSet& ops = AllOperators();
  const auto root = net.Add(ops, ops::Sqrt{}, {x}, "root").value();
  const auto y = net.Add(ops, ops::Neg{}, {root}).value();
  ASSERT_THAT(net.SetOutputs({y}), IsOk());
  OperatorCase made;
  made.configuration.demands = {
      {net.value(root).name, InputDomain::WithoutNan()}};
  made.network = std::make_shared<const Network>(std::move(net));
  const NDArray minus = NDArray::Empty({1}, kFloat32, kCpu).value();
  *minus.As<float>() = -1;
  EXPECT_FALSE(CaseReference(made).Run({minus}).ok());
  EXPECT_THAT(CaseReference(*made.network).Run({minus}), IsOk());
}

AutotestOptions NetworkRuns(uint64_t runs) {
  AutotestOptions options;
  options.seed = 3;
  options.runs = runs;
  options.sets = 4;
  options.most_shrinking_seconds = 5;
  return options;
}

// Every Relu that follows a Neg or an Add alone adds 1, as a fault in a fused
// kernel would.
CandidateOutputs WithFusedFault(const Network& network,
                                const std::vector<NDArray>& inputs) {
  InterpretOptions options;
  InterpretOptions spoiling;
  spoiling.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    const NDArray& made = run.result.outputs[0];
    if (run.operation.kind() != "Relu" || made.dtype() != kFloat32) {
      return false;
    }
    const NetworkValue& read = network.value(run.operation.inputs[0]);
    if (read.kind != NetworkValue::Kind::kOutput || read.uses.size() != 1) {
      return false;
    }
    const auto kind = network.operation(read.producer).kind();
    if (kind != "Neg" && kind != "Add") return false;
    std::vector<double> numbers = ToDoubles(made);
    for (double& x : numbers) x += 1;
    auto spoilt = NDArray::Empty(made.shape(), kFloat32, kCpu);
    if (!spoilt.ok()) return spoilt.status();
    StoreDoubles(numbers.data(), 0, CountOf(*spoilt), *spoilt);
    options.replaced[run.operation.outputs[0]] = *spoilt;
    return false;
  };
  const auto sound = Interpret(network, inputs, spoiling);
  if (!sound.ok()) return sound.status();
  return Interpret(network, inputs, options);
}

TEST(NetworkDrawTest, AFaultOfTwoOperationsIsShrunkToThem) {
  std::vector<const OperatorDef*> rows;
  for (const char* name :
       {"Relu", "Neg", "Add", "Mul", "Transpose", "MatMul"}) {
    rows.push_back(AllOperators().Find("", name, kNewestOpset));
  }
  const auto faulty = CallableCandidate("faulty", &WithFusedFault);
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *faulty, NetworkRuns(400));
  ASSERT_FALSE(result.findings.empty());
  for (const AutotestFinding& finding : result.findings) {
    EXPECT_THAT(TitleOf(finding.made), testing::AnyOf("Neg_Relu", "Add_Relu"));
    for (const NDArray& input : finding.set.inputs) {
      EXPECT_THAT(input.shape(), testing::Each(testing::Le(3)));
    }
  }
}

TEST(NetworkDrawTest, ThePartThatWasCutIsShownIfNothingElseFailsAgain) {
  std::vector<const OperatorDef*> rows;
  for (const char* name :
       {"Relu", "Neg", "Add", "Mul", "Transpose", "MatMul"}) {
    rows.push_back(AllOperators().Find("", name, kNewestOpset));
  }
  bool is_sound = false;
  const auto candidate = CallableCandidate(
      "sometimes",
      [&is_sound](const Network& network, const std::vector<NDArray>& inputs) {
        if (is_sound) return Interpret(network, inputs);
        const auto order = network.order();
        is_sound =
            order.size() == 2 && network.operation(order[1]).kind() == "Relu";
        return WithFusedFault(network, inputs);
      });
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *candidate, NetworkRuns(400));
  ASSERT_THAT(result.findings, testing::SizeIs(1));
  EXPECT_THAT(TitleOf(result.findings[0].made),
              testing::AnyOf("Neg_Relu", "Add_Relu"));
}

// Lowers a network, and spoils a node of the graph.
CandidateOutputs WithPlantedFault(const Network& network,
                                  const std::vector<NDArray>& inputs) {
  auto lowered = Lower(network, "case", {});
  if (!lowered.ok()) return lowered.status();
  auto planted = PlantScale(
      std::move(lowered->graph),
      BuiltInFunctions(AllOperators(), Backend::kReference), /*seed=*/1);
  if (!planted.ok()) return absl::UnimplementedError("nothing to spoil");
  auto executor =
      GraphExecutor::Create(std::move(planted->graph), planted->library);
  if (!executor.ok()) return executor.status();
  const auto loaded = (*executor)->LoadParams(Params{lowered->params});
  if (!loaded.ok()) return loaded.status();
  return RunExecutor(executor->get(), inputs);
}

// A pass that takes every Neg for an Abs.
TEST(NetworkDrawTest, AFaultyPassIsFoundAndShrunk) {
  std::vector<const OperatorDef*> rows;
  for (const char* name : {"Relu", "Neg", "Add", "Transpose"}) {
    rows.push_back(AllOperators().Find("", name, kNewestOpset));
  }
  const Pass faulty{"faulty", [](Network& network) -> absl::Status {
                      const std::vector<OperationId> order(
                          network.order().begin(), network.order().end());
                      for (const OperationId id : order) {
                        const Operation& operation = network.operation(id);
                        if (operation.kind() != "Neg") continue;
                        const ValueId old = operation.outputs[0];
                        const auto made = network.Add(
                            AllOperators(), ops::Abs{}, operation.inputs);
                        if (!made.ok()) return made.status();
                        const absl::Status replaced =
                            network.ReplaceUses({old}, {*made});
                        if (!replaced.ok()) return replaced;
                      }
                      network.RemoveUnused();
                      return absl::OkStatus();
                    }};
  const auto rewritten = RewrittenCandidate(
      CallableCandidate(
          "sound",
          [](const Network& network, const std::vector<NDArray>& inputs) {
            return Interpret(network, inputs);
          }),
      {faulty});
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *rewritten, NetworkRuns(200));
  ASSERT_FALSE(result.findings.empty());
  for (const AutotestFinding& finding : result.findings) {
    EXPECT_EQ(TitleOf(finding.made), "Neg");
  }
}

TEST(NetworkDrawTest, APlantedFaultIsFoundAndShrunk) {
  const std::vector<const OperatorDef*> rows = AllRows();
  const auto faulty = CallableCandidate("planted", &WithPlantedFault);
  AutotestOptions options = NetworkRuns(80);
  options.most_tries = 300;
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *faulty, options);
  ASSERT_FALSE(result.findings.empty());
  for (const AutotestFinding& finding : result.findings) {
    EXPECT_LE(finding.made.network->order().size(), 3U)
        << ToString(finding.made);
  }
}

std::multiset<std::string> SeenBy(AutotestOptions options) {
  std::multiset<std::string> seen;
  const auto recorder = CallableCandidate(
      "recorder",
      [&seen](const Network& network,
              const std::vector<NDArray>& inputs) -> CandidateOutputs {
        std::string text = NetworkToText(network.data());
        for (const NDArray& input : inputs) {
          for (const double x : ToDoubles(input)) text += std::to_string(x);
        }
        seen.insert(text);
        return Interpret(network, inputs);
      });
  const std::vector<const OperatorDef*> rows = AllRows();
  RunAutotest(*NetworkSource(ScopeOf(rows)), *recorder, options);
  return seen;
}

TEST(NetworkDrawTest, ShardsTogetherAreTheWholeRun) {
  const std::multiset<std::string> whole = SeenBy(NetworkRuns(200));
  EXPECT_EQ(SeenBy(NetworkRuns(200)), whole);
  std::multiset<std::string> all;
  for (uint64_t shard = 0; shard < 3; ++shard) {
    AutotestOptions options = NetworkRuns(200);
    options.shard = shard;
    options.shards = 3;
    all.merge(SeenBy(options));
  }
  EXPECT_EQ(all, whole);
}

// y = Relu(Conv(x)) + x, and a Softmax of it.
std::shared_ptr<const Network> SmallModel() {
  Network net("small");
  const auto x =
      net.AddInput("x", TensorType(kFloat32, {1, 2, Dim::Named("h"), 8}))
          .value();
  auto weights = NDArray::Empty({2, 2, 3, 3}, kFloat32, kCpu).value();
  const std::vector<double> ones(36, 0.5);
  StoreDoubles(ones.data(), 0, 36, weights);
  const auto w = net.AddConstant("w", weights).value();
  const OpSet& ops = AllOperators();
  ops::Conv conv;
  conv.pads = {1, 1, 1, 1};
  const auto y = net.Add(ops, conv, {x, w}).value();
  const auto relu = net.Add(ops, ops::Relu{}, {y}).value();
  const auto sum = net.Add(ops, ops::Add{}, {relu, x}).value();
  EXPECT_THAT(net.SetOutputs({sum}), IsOk());
  return std::make_shared<const Network>(std::move(net));
}

TEST(NetworkMutationTest, PartsOfAModelAreChangedAndAgree) {
  const auto source = MutationSource({SmallModel()});
  std::set<std::string> kinds;
  std::set<std::string> texts;
  for (uint64_t number = 0; number < 300; ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto made = DrawNumber(*source, 1, number, &choices, &refused);
    ASSERT_THAT(made, IsOk());
    for (const OperationId id : made->network->order()) {
      kinds.emplace(made->network->operation(id).kind());
    }
    texts.insert(NetworkToText(made->network->data()));
  }
  EXPECT_GT(kinds.size(), 8U);
  EXPECT_GT(texts.size(), 200U);
  const auto graph = LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
  const AutotestResult result = RunAutotest(*source, *graph, NetworkRuns(400));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 350U);
}

TEST(NetworkMutationTest, AFaultInAPartIsShrunkToIt) {
  const auto faulty = CallableCandidate("faulty", &WithFusedFault);
  const AutotestResult result =
      RunAutotest(*MutationSource({SmallModel()}), *faulty, NetworkRuns(4000));
  ASSERT_FALSE(result.findings.empty());
  for (const AutotestFinding& finding : result.findings) {
    EXPECT_THAT(TitleOf(finding.made), testing::AnyOf("Neg_Relu", "Add_Relu"));
  }
}

}  // namespace
}  // namespace nodewise
