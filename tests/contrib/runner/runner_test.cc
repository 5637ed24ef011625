// One suite for all runners: what the header promises holds for every kind.

#include "nodewise/runner/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

// The two operators that the network of these tests needs.
struct Add {
  OutputInfos Infer(const Inputs& in) const { return {in.type(0)}; }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    const float* const a = args.in(0).As<float>();
    std::transform(a, a + 4, args.in(1).As<float>(), out.As<float>(),
                   std::plus<float>());
    return absl::OkStatus();
  }
};
struct Relu {
  OutputInfos Infer(const Inputs& in) const { return {in.type(0)}; }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    const float* const x = args.in(0).As<float>();
    std::transform(x, x + 4, out.As<float>(),
                   [](float value) { return std::max(value, 0.0F); });
    return absl::OkStatus();
  }
};

const OpSet& Operators() {
  static const OperatorDef rows[] = {
      Row<Add>("Add", 1, {"A", "B"}, {"C"}, kExact, kElementwise),
      Row<Relu>("Relu", 1, {"X"}, {"Y"}, kExact, kElementwise),
  };
  static const OpSet* const all = [] {
    auto* const set = new OpSet;
    set->Add(rows);
    return set;
  }();
  return *all;
}

// Computes sum = x + y, pos = relu(sum) and out = pos + y, all float32 (4,).
// The outputs are out and, twice, pos.
RunnerTarget NetworkTarget() {
  Network net("net");
  const TensorType type(kFloat32, {4});
  const ValueId x = net.AddInput("x", type).value();
  const ValueId y = net.AddInput("y", type).value();
  const auto add = [&](OpAttrs attrs, std::vector<ValueId> inputs,
                       const std::string& name) {
    NewOperation operation;
    operation.attrs = std::move(attrs);
    operation.inputs = std::move(inputs);
    operation.name = name;
    operation.outputs = {name};
    const auto id = net.AddOperation(std::move(operation));
    EXPECT_THAT(id, IsOk());
    return net.operation(*id).outputs[0];
  };
  const OpAttrs plus =
      OpAttrs::From(Operators().FindType(&kTypeTag<Add>), Add{});
  const OpAttrs relu =
      OpAttrs::From(Operators().FindType(&kTypeTag<Relu>), Relu{});
  const ValueId sum = add(plus, {x, y}, "sum");
  const ValueId pos = add(relu, {sum}, "pos");
  const ValueId out = add(plus, {pos, y}, "out");
  EXPECT_THAT(net.SetOutputs({out, pos, pos}), IsOk());
  return {"net", nullptr, std::make_shared<const Network>(std::move(net))};
}

RunnerTarget GraphTargetWith(Params params) {
  Artefact artefact;
  artefact.graph = GraphBuilder()
                       .Input("x")
                       .Input("y")
                       .Op("sum", "add", {"x", "y"})
                       .Op("pos", "relu", {"sum"})
                       .Op("out", "add", {"pos", "y"})
                       .Head("out")
                       .Head("pos")
                       .Head("pos")
                       .Build();
  artefact.library = TestKernels();
  artefact.params = std::move(params);
  const auto graph =
      GraphTarget::FromArtefact("net", std::move(artefact), {kCpu});
  EXPECT_THAT(graph, IsOk());
  return {"net", *graph};
}

// Another program that computes the network, knowing the values' names.
constexpr const char* kOtherProgram = R"(
import json, struct, sys

request = json.load(open(sys.argv[-1]))
values = {}
for item in request["inputs"]:
    data = open(item["file"], "rb").read()
    values[item["name"]] = struct.unpack("<4f", data)


def make(name, compute, *reads):
    if name not in values:
        values[name] = [compute(*v) for v in zip(*(values[r] for r in reads))]


def add(a, b):
    return a + b


make("sum", add, "x", "y")
make("pos", lambda a: max(a, 0.0), "sum")
make("out", add, "pos", "y")
outputs = []
for name in request["outputs"]:
    with open(f"{request['output_folder']}/{name}", "wb") as file:
        file.write(struct.pack("<4f", *values[name]))
    outputs.append({"name": name, "dtype": "float32", "shape": [4],
                    "file": name})
json.dump({"version": 1, "outputs": outputs}, open(request["answer"], "w"))
)";

RunnerTarget ForeignProgram() {
  ForeignTarget foreign;
  foreign.name = "net";
  foreign.command = {"python3", {"python3", "-I", "-c", kOtherProgram}};
  foreign.network = NetworkTarget().network;
  RunnerTarget target;
  target.name = "net";
  target.foreign = std::make_shared<const ForeignTarget>(std::move(foreign));
  return target;
}

RunnerTarget TargetFor(const RunnerKind& kind) {
  for (const RunnerTarget& target : {GraphTargetWith({}), NetworkTarget()}) {
    if (kind.takes(target)) return target;
  }
  return ForeignProgram();
}

// Other programs are given a model, which only some builds can write.
bool CanRun(const RunnerKind& kind) {
  return !kind.takes(ForeignProgram()) ||
         !absl::IsUnimplemented(ExportOnnx(Network("net")).status());
}

// Keeps what it takes as text: "sum: -1 2 3 4".
class TextSink : public TensorSink {
 public:
  absl::Status Consume(const TensorItem& item) override {
    std::string line = item.key.node + ":";
    for (const float value : ValuesOf(*item.tensor)) {
      line += " " + std::to_string(static_cast<int>(value));
    }
    lines.push_back(item.is_network_input ? "given " + line : line);
    num_timed += item.time.end_ns > 0 ? 1 : 0;
    num_bounded += item.proved_bounds.empty() ? 0 : 1;
    return result;
  }

  std::vector<std::string> lines;
  int num_timed = 0;
  int num_bounded = 0;
  absl::Status result;
};

class RunnerConformance : public testing::TestWithParam<RunnerKind> {
 protected:
  RunnerConformance()
      : runner_(
            MakerOf(GetParam().name, TargetFor(GetParam())).value()().value()) {
  }

  void SetUp() override {
    if (!CanRun(GetParam())) GTEST_SKIP() << "this build writes no models";
  }

  bool Can(Capability capability) const { return runner_->Can(capability); }
  absl::StatusOr<RunResult> Run(const RunOptions& options = {}) {
    return runner_->Run(given_, options);
  }
  // Returns whether the runner has the capability that the options need, and
  // expects that it refuses them otherwise.
  bool CanOrRefuses(Capability capability, const RunOptions& options) {
    if (Can(capability)) return true;
    EXPECT_THAT(Run(options),
                FailsWith(absl::StatusCode::kUnimplemented,
                          HasSubstr(std::string(NameOf(capability)))));
    return false;
  }

  const std::vector<NamedTensor> given_ = {{"y", Floats({1, 1, 1, 1})},
                                           {"x", Floats({-2, 1, 2, 3})}};
  const std::unique_ptr<Runner> runner_;
};

TEST_P(RunnerConformance, NamesAreThoseOfTheKindAndTheTarget) {
  EXPECT_EQ(runner_->name(), std::string(GetParam().name) + " net");
  const std::vector<std::string>& outputs = runner_->outputs();
  EXPECT_EQ(outputs[0], "out");
  EXPECT_EQ(std::set(outputs.begin(), outputs.end()).size(), 3u);
  ASSERT_EQ(runner_->inputs().size(), 2u);
  EXPECT_EQ(runner_->inputs().Key(0), "x");
}

TEST_P(RunnerConformance, InputsArePairedByNameAndOutputsAreTheCallersOwn) {
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->outputs.size(), 3u);
  EXPECT_EQ(result->outputs[2].name, runner_->outputs()[2]);
  const NDArray nines = Floats({9, 9, 9, 9});
  const std::vector<NamedTensor> other = {{"x", nines}, {"y", nines}};
  ASSERT_THAT(runner_->Run(other), IsOk());
  EXPECT_THAT(ValuesOf(result->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(ValuesOf(result->outputs[1].tensor), ElementsAre(0, 2, 3, 4));
}

TEST_P(RunnerConformance, InputsThatDoNotFitAreRefusedByName) {
  const auto expect = [&](std::vector<NamedTensor> given, absl::StatusCode code,
                          const char* text) {
    EXPECT_THAT(runner_->Run(given), FailsWith(code, HasSubstr(text)));
  };
  const NDArray four = Floats({1, 2, 3, 4});
  expect({{"x", four}}, kInvalid, "input y: was not given");
  expect({{"x", four}, {"y", Floats({1})}}, kInvalid, "input y: is float32");
  expect({{"x", four}, {"x", four}}, kInvalid, "input x: is given twice");
  expect({{"x", NDArray()}}, kInvalid, "input x: is an undefined tensor");
  expect({{"z", four}}, kNotFound, "input z: ");
}

TEST_P(RunnerConformance, EveryRepeatIsTimed) {
  RunOptions options;
  options.repeats = 3;
  const auto result = Run(options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->durations_ns.size(), 3u);
  options.repeats = 0;
  EXPECT_THAT(Run(options), FailsWith(kInvalid, HasSubstr("found 0 repeats")));
}

TEST_P(RunnerConformance, TheSinkGetsWhatEveryNodeMakesInTheOrderOfTheRun) {
  TextSink sink;
  RunOptions options;
  options.sink = &sink;
  if (!CanOrRefuses(Capability::kTensors, options)) return;
  ASSERT_THAT(Run(options), IsOk());
  EXPECT_THAT(sink.lines,
              ElementsAre("given x: -2 1 2 3", "given y: 1 1 1 1",
                          "sum: -1 2 3 4", "pos: 0 2 3 4", "out: 1 3 4 5"));
  EXPECT_EQ(sink.num_timed, Can(Capability::kNodeTimes) ? 3 : 0);
}

TEST_P(RunnerConformance, RunsThatHaveStartedAreFinishedInAnyOrder) {
  TextSink sink;
  RunOptions options;
  if (Can(Capability::kTensors)) options.sink = &sink;
  const auto first = runner_->Start(given_, options);
  const NDArray nines = Floats({9, 9, 9, 9});
  const auto second = runner_->Start({{{"x", nines}, {"y", nines}}});
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(sink.lines.empty());
  const auto of_second = (*second)->Finish();
  const auto of_first = (*first)->Finish();
  ASSERT_THAT(of_second, IsOk());
  ASSERT_THAT(of_first, IsOk());
  EXPECT_THAT(ValuesOf(of_first->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(ValuesOf(of_second->outputs[0].tensor),
              ElementsAre(27, 27, 27, 27));
  EXPECT_EQ(sink.lines.empty(), !Can(Capability::kTensors));
}

TEST_P(RunnerConformance, TheSinkGetsOnlyWhatIsSelected) {
  if (!Can(Capability::kTensors)) return;
  TextSink sink;
  RunOptions options;
  options.sink = &sink;
  options.select = [](const std::string& node) { return node == "pos"; };
  ASSERT_THAT(Run(options), IsOk());
  EXPECT_THAT(sink.lines, ElementsAre("pos: 0 2 3 4"));
}

TEST_P(RunnerConformance, AnErrorOfTheSinkEndsTheRunAndIsReturnedAsItIs) {
  if (!Can(Capability::kTensors)) return;
  TextSink sink;
  sink.result = absl::CancelledError("enough");
  RunOptions options;
  options.sink = &sink;
  for (const char* const node : {"x", "sum"}) {
    sink.lines.clear();
    options.select = [&](const std::string& name) { return name == node; };
    EXPECT_EQ(Run(options).status(), sink.result);
    EXPECT_EQ(sink.lines.size(), 1u);
  }
  EXPECT_THAT(Run(), IsOk());
}

TEST_P(RunnerConformance, BoundsGoToTheSink) {
  if (!Can(Capability::kTensors)) return;
  TextSink sink;
  RunOptions options;
  options.sink = &sink;
  options.with_bounds = true;
  if (!CanOrRefuses(Capability::kBounds, options)) return;
  ASSERT_THAT(Run(options), IsOk());
  EXPECT_EQ(sink.num_bounded, 3);
}

TEST_P(RunnerConformance, WhatNodesReadGoesToTheSinkBeforeWhatTheyMake) {
  if (!Can(Capability::kTensors)) return;
  TextSink sink;
  RunOptions options;
  options.sink = &sink;
  options.with_node_inputs = true;
  options.select = [](const std::string& node) { return node == "pos"; };
  if (!CanOrRefuses(Capability::kNodeInputs, options)) return;
  ASSERT_THAT(Run(options), IsOk());
  EXPECT_THAT(sink.lines, ElementsAre("pos: -1 2 3 4", "pos: 0 2 3 4"));
}

TEST_P(RunnerConformance, APatchIsReadByWhatFollowsAndHoldsForOneRun) {
  RunOptions options;
  options.patches = {{"sum", Floats({7, 7, 7, 7}), "s.npy", "--patch"}};
  if (!CanOrRefuses(Capability::kPatches, options)) return;
  const auto patched = Run(options);
  ASSERT_THAT(patched, IsOk());
  EXPECT_THAT(ValuesOf(patched->outputs[0].tensor), ElementsAre(8, 8, 8, 8));
  const auto after = Run();
  ASSERT_THAT(after, IsOk());
  EXPECT_THAT(ValuesOf(after->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
}

TEST_P(RunnerConformance, APatchOfAnInputTakesTheGivenTensorsPlace) {
  if (!Can(Capability::kPatches)) return;
  RunOptions options;
  options.patches = {{"y", Floats({0, 0, 0, 0}), "y.npy", "--patch"}};
  const auto patched = Run(options);
  ASSERT_THAT(patched, IsOk());
  EXPECT_THAT(ValuesOf(patched->outputs[0].tensor), ElementsAre(0, 1, 2, 3));
}

TEST_P(RunnerConformance, PatchesThatDoNotFitAreRefusedWithWhereTheyCameFrom) {
  if (!Can(Capability::kPatches)) return;
  const NDArray four = Floats({1, 2, 3, 4});
  const auto expect = [&](std::vector<TensorPatch> patches,
                          absl::StatusCode code, const char* text) {
    RunOptions options;
    options.patches = std::move(patches);
    EXPECT_THAT(Run(options), FailsWith(code, HasSubstr(text)));
  };
  expect({{"som", four, "s.npy", "here"}}, kNotFound, "here: ");
  expect({{"sum", Floats({1}), "s.npy", "here"}}, kInvalid, "here: ");
  expect({{"sum", four, "a.npy", "here"}, {"sum", four, "b.npy", "here"}},
         kInvalid, "here: b.npy: ");
}

TEST_P(RunnerConformance, ARunStopsAfterANodeAndReturnsWhatItMade) {
  RunOptions options;
  options.stop = StopRule{"sum", "--until", {}};
  if (!CanOrRefuses(Capability::kSteps, options)) return;
  for (int run = 0; run < 2; ++run) {
    const auto result = Run(options);
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->stopped.has_value());
    EXPECT_EQ(result->stopped->key, "sum");
    EXPECT_FALSE(result->stopped->made_value);
    ASSERT_EQ(result->outputs.size(), 1u);
    EXPECT_THAT(ValuesOf(result->outputs[0].tensor), ElementsAre(-1, 2, 3, 4));
  }
  options.stop->node = "no such node";
  EXPECT_THAT(Run(options), FailsWith(kNotFound, HasSubstr("--until: ")));
}

TEST_P(RunnerConformance, ARunStopsAtTheFirstNodeThatMakesAValue) {
  if (!Can(Capability::kSteps)) return;
  StopValues values;
  values.above = 4.5;
  RunOptions options;
  options.stop = StopRule{"", "", values};
  const auto result = Run(options);
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->stopped.has_value());
  EXPECT_TRUE(result->stopped->made_value);
  EXPECT_THAT(ValuesOf(result->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
  options.stop->values->above = 100;
  const auto none = Run(options);
  ASSERT_THAT(none, IsOk());
  EXPECT_FALSE(none->stopped.has_value());
  EXPECT_EQ(none->outputs.size(), 3u);
}

TEST_P(RunnerConformance, AMakersRunnersShareNothingThatARunChanges) {
  const RunnerMaker maker =
      MakerOf(GetParam().name, TargetFor(GetParam())).value();
  const auto one = maker();
  const auto other = maker();
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  const auto first = (*one)->Run(given_);
  ASSERT_THAT(first, IsOk());
  const NDArray nines = Floats({9, 9, 9, 9});
  const std::vector<NamedTensor> given = {{"x", nines}, {"y", nines}};
  ASSERT_THAT((*other)->Run(given), IsOk());
  EXPECT_THAT(ValuesOf(first->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
}

TEST_P(RunnerConformance, AParameterMayBeGivenForOneRun) {
  Params params;
  params.tensors.push_back({"y", Floats({1, 1, 1, 1})});
  const RunnerTarget target = GraphTargetWith(std::move(params));
  if (!GetParam().takes(target)) return;
  const auto runner = MakerOf(GetParam().name, target).value()();
  ASSERT_THAT(runner, IsOk());
  const std::vector<NamedTensor> x = {given_[1]};
  const std::vector<NamedTensor> both = {x[0], {"y", Floats({0, 0, 0, 0})}};
  const auto given = (*runner)->Run(both);
  ASSERT_THAT(given, IsOk());
  EXPECT_THAT(ValuesOf(given->outputs[0].tensor), ElementsAre(0, 1, 2, 3));
  const auto after = (*runner)->Run(x);
  ASSERT_THAT(after, IsOk());
  EXPECT_THAT(ValuesOf(after->outputs[0].tensor), ElementsAre(1, 3, 4, 5));
}

// The __nop's output is the parameter's memory.
TEST_P(RunnerConformance, APatchOfAParametersOtherShapeHoldsForOneRun) {
  if (!Can(Capability::kPatches)) return;
  Artefact artefact;
  artefact.graph = GraphBuilder()
                       .Input("x", {{4}, "float32", 0})
                       .Input("y", {{4}, "float32", 1})
                       .Op("r", "__nop", {"y"}, {{{4}, "float32", 1}})
                       .Op("out", "add", {"x", "r"}, {{{4}, "float32", 2}})
                       .Head("out")
                       .Build();
  artefact.library = TestKernels();
  artefact.params.tensors.push_back({"y", Floats({1, 1, 1, 1})});
  const RunnerTarget target = {
      "net",
      GraphTarget::FromArtefact("net", std::move(artefact), {kCpu}).value()};
  if (!GetParam().takes(target)) return;
  const auto runner = MakerOf(GetParam().name, target).value()().value();
  const std::vector<NamedTensor> x = {given_[1]};
  RunOptions options;
  options.patches = {{"r", Floats({7, 7, 7, 7}), "r.npy", "--patch"}};
  ASSERT_THAT(runner->Run(x, options), IsOk());
  const auto after = runner->Run(x);
  ASSERT_THAT(after, IsOk());
  EXPECT_THAT(ValuesOf(after->outputs[0].tensor), ElementsAre(-1, 2, 3, 4));
}

TEST_P(RunnerConformance, RepeatsOfARunThatStopsAreRefused) {
  RunOptions options;
  options.stop = StopRule{"sum", "--until", {}};
  options.repeats = 2;
  if (!CanOrRefuses(Capability::kSteps, options)) return;
  EXPECT_THAT(Run(options), FailsWith(kInvalid, HasSubstr("2 repeats")));
}

INSTANTIATE_TEST_SUITE_P(All, RunnerConformance,
                         testing::ValuesIn(RunnerKinds().begin(),
                                           RunnerKinds().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(RunnerListTest, AKindThatIsNotThereOrDoesNotFitIsRefused) {
  EXPECT_THAT(MakerOf("interpretr", NetworkTarget()),
              FailsWith(kNotFound, HasSubstr("did you mean interpreter")));
  EXPECT_THAT(
      MakerOf("plain", NetworkTarget()),
      FailsWith(kInvalid, HasSubstr("net: is nothing that runner plain")));
}

}  // namespace
}  // namespace nodewise
