#include "nodewise/interp/interpreter.h"

#include <gtest/gtest.h>

#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

NDArray Long(int64_t value) { return MakeTensor<int64_t>({}, {value}); }
NDArray Truth(bool value) {
  return MakeTensor<uint8_t>({}, {static_cast<uint8_t>(value ? 1 : 0)}, kBool);
}
Dim N() { return Dim::Named("n"); }

// Builds a network from the names of operators.
struct Builder {
  Network net{"net"};

  ValueId In(const char* name, TensorType type) {
    return net.AddInput(name, std::move(type)).value();
  }
  std::vector<ValueId> Op(const char* kind, std::vector<ValueId> inputs,
                          std::vector<NamedAttr> attrs = {},
                          std::vector<std::string> outputs = {}) {
    const OperatorDef* const def = AllOperators().Find("", kind, 21);
    NewOperation operation;
    operation.attrs = MakeAttrs(*def, attrs).value();
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    const auto id = net.AddOperation(std::move(operation));
    EXPECT_THAT(id, IsOk());
    return net.operation(*id).outputs;
  }
  Subgraph Body(std::vector<ValueId> outputs, uint32_t captures = 0) {
    EXPECT_THAT(net.SetOutputs(std::move(outputs)), IsOk());
    return {ShareNetwork(std::move(net)), captures};
  }
};

// x, an input, then `length` additions of each value to itself.
Network Chain(int length, Shape shape) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, std::move(shape)));
  ValueId last = x;
  for (int i = 0; i < length; ++i) last = b.Op("Add", {last, x})[0];
  EXPECT_THAT(b.net.SetOutputs({last}), IsOk());
  return std::move(b.net);
}

TEST(InterpreterTest, OperationsRunInTheirOrder) {
  for (const Shape& shape : {Shape{2}, Shape{N()}}) {
    const auto y = Interpret(Chain(3, shape), {Floats({1, 2})});
    ASSERT_THAT(y, IsOk());
    EXPECT_THAT(ValuesOf((*y)[0]), ElementsAre(4, 8));
  }
}

TEST(InterpreterTest, OutputThatIsAConstantIsTheCallersOwn) {
  Builder b;
  const ValueId c = b.net.AddConstant("c", Floats({1, 2})).value();
  const ValueId same = b.Op("Identity", {c})[0];
  ASSERT_THAT(b.net.SetOutputs({c, same}), IsOk());
  for (int run = 0; run < 2; ++run) {
    const auto outputs = Interpret(b.net, {}).value();
    for (const NDArray& output : outputs) {
      EXPECT_THAT(ValuesOf(output), ElementsAre(1, 2));
      output.As<float>()[0] = 7;
    }
  }
}

TEST(InterpreterTest, InputsMustBeOfTheNetworksTypes) {
  const Network net = Chain(1, {2});
  EXPECT_THAT(Interpret(net, {Floats({1, 2, 3})}),
              FailsWith(kInvalid, HasSubstr("input x: is float32[3]")));
  EXPECT_THAT(Interpret(net, {}), FailsWith(kInvalid, HasSubstr("0 inputs")));
  EXPECT_THAT(Interpret(net, {NDArray()}),
              FailsWith(kInvalid, HasSubstr("input x: is not given")));
}

TEST(InterpreterTest, ANameIsOneSizeInAllInputs) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, {N()}));
  const ValueId y = b.In("y", TensorType(kFloat32, {N()}));
  ASSERT_THAT(b.net.SetOutputs(b.Op("Add", {x, y})), IsOk());
  EXPECT_THAT(Interpret(b.net, {Floats({1, 2}), Floats({1})}),
              FailsWith(kInvalid, HasSubstr("input y: side 0 (n) is 1")));
}

TEST(InterpreterTest, ErrorsNameTheOperation) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, {2}));
  const ValueId i = b.In("i", TensorType(kInt64, Shape{}));
  const auto y = b.Op("Gather", {x, i});
  ASSERT_THAT(b.net.SetOutputs(y), IsOk());
  EXPECT_THAT(Interpret(b.net, {Floats({1, 2}), Long(7)}),
              FailsWith(kInvalid, HasSubstr("(Gather): input 1: index 7")));
}

TEST(InterpreterTest, WhatNoMemoryCanHoldIsRefusedBeforeTheRun) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, {2}));
  const ValueId large = b.In("large", TensorType(kFloat32, {int64_t{1} << 60}));
  const ValueId y = b.Op("Neg", {x})[0];
  const ValueId z = b.Op("Concat", {large, large}, {{"axis", int64_t{0}}})[0];
  ASSERT_THAT(b.net.SetOutputs({y, z}), IsOk());
  EXPECT_THAT(Interpret(b.net, {}),
              FailsWith(kInvalid, HasSubstr("(Concat): shape (23058430")));
}

TEST(InterpreterTest, EveryOperationIsObservedWithItsBounds) {
  int seen = 0;
  InterpretOptions options;
  options.with_bounds = true;
  options.observe = [&](const OperationRun& run) {
    EXPECT_EQ(run.result.bounds[0].proved.size(), 2U);
    EXPECT_GE(run.time.end_ns, run.time.start_ns);
    ++seen;
    return false;
  };
  ASSERT_THAT(Interpret(Chain(5, {2}), {Floats({1, 2})}, options), IsOk());
  EXPECT_EQ(seen, 5);
}

TEST(InterpreterTest, TensorsAreLetGoAfterTheirLastUse) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, {2}));
  const ValueId y = b.Op("Add", {x, x})[0];
  ASSERT_THAT(b.net.SetOutputs(b.Op("Add", {y, y})), IsOk());
  auto owner = std::make_shared<NDArray>(Floats({1, 2}));
  const std::weak_ptr<NDArray> watch = owner;
  const DLTensor& view = **owner;
  std::vector<NDArray> inputs{NDArray::Borrow(view, std::move(owner))};
  std::vector<bool> is_gone;
  InterpretOptions options;
  options.observe = [&](const OperationRun&) {
    is_gone.push_back(watch.expired());
    return false;
  };
  ASSERT_THAT(Interpret(b.net, std::move(inputs), options), IsOk());
  EXPECT_THAT(is_gone, ElementsAre(true, true));
}

TEST(InterpreterTest, AnErrorOfTheObserverEndsTheRun) {
  int seen = 0;
  InterpretOptions options;
  options.observe = [&](const OperationRun&) -> absl::StatusOr<bool> {
    if (++seen == 3) return absl::CancelledError("enough");
    return false;
  };
  EXPECT_THAT(Interpret(Chain(5, {2}), {Floats({1, 2})}, options),
              FailsWith(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_EQ(seen, 3);
}

TEST(InterpreterTest, AnObserverMayEndTheRunAndOutputsNotMadeAreUndefined) {
  int seen = 0;
  InterpretOptions options;
  options.observe = [&](const OperationRun&) { return ++seen == 3; };
  const auto y = Interpret(Chain(5, {2}), {Floats({1, 2})}, options);
  ASSERT_THAT(y, IsOk());
  EXPECT_FALSE((*y)[0].defined());
  EXPECT_EQ(seen, 3);
}

TEST(InterpreterTest, AReplacedValueIsNotComputedAndReadByWhatFollows) {
  const Network net = Chain(2, {2});
  const Operation& first = net.operation(net.order()[0]);
  InterpretOptions options;
  options.replaced[first.outputs[0]] = Floats({10, 20});
  const auto y = Interpret(net, {Floats({1, 2})}, options);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf((*y)[0]), ElementsAre(11, 22));
}

// Computes everything as the reference does, and counts.
class CountingEvaluator : public Evaluator {
 public:
  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    ++calls;
    return ReferenceEvaluator().Evaluate(std::move(call), options);
  }
  mutable int calls = 0;
};

TEST(InterpreterTest, AnotherEvaluatorComputesEveryOperation) {
  const CountingEvaluator evaluator;
  const Network net = Chain(4, {N()});
  const auto y = Interpreter(net, evaluator).Run({Floats({1, 2})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf((*y)[0]), ElementsAre(5, 10));
  EXPECT_EQ(evaluator.calls, 4);
}

Subgraph AddOf(const char* name, float number) {
  Builder b;
  const ValueId outer = b.In("outer", TensorType(kFloat32, {2}));
  const ValueId c = b.net.AddConstant(name, Floats({number})).value();
  return b.Body(b.Op("Add", {outer, c}), 1);
}

TEST(ControlFlowTest, IfRunsTheBranchWithItsOwnCaptures) {
  Builder b;
  const ValueId condition = b.In("condition", TensorType(kBool, Shape{}));
  const ValueId x = b.In("x", TensorType(kFloat32, {2}));
  const ValueId y = b.In("y", TensorType(kFloat32, {2}));
  // The captures of the else branch come first.
  const auto z = b.Op("If", {condition, x, y},
                      {{"else_branch", AddOf("ten", 10)},
                       {"then_branch", AddOf("hundred", 100)}});
  ASSERT_THAT(b.net.SetOutputs(z), IsOk());
  const auto run = [&](bool is_true) {
    return ValuesOf((*Interpret(
        b.net, {Truth(is_true), Floats({1, 2}), Floats({3, 4})}))[0]);
  };
  EXPECT_THAT(run(true), ElementsAre(103, 104));
  EXPECT_THAT(run(false), ElementsAre(11, 12));
}

// Carries the sum of the trips' numbers, and scans it; ends when it is `limit`.
Subgraph SumOfTrips(int64_t limit) {
  Builder b;
  const ValueId trip = b.In("trip", TensorType(kInt64, Shape{}));
  b.In("condition", TensorType(kBool, Shape{}));
  const ValueId sum = b.In("sum", TensorType(kInt64, Shape{}));
  const ValueId most = b.net.AddConstant("most", Long(limit)).value();
  const ValueId next = b.Op("Add", {sum, trip})[0];
  const ValueId goes_on = b.Op("Less", {next, most})[0];
  const ValueId scanned = b.Op("Identity", {next})[0];
  return b.Body({goes_on, next, scanned});
}

absl::StatusOr<std::vector<NDArray>> RunLoop(NDArray trips, NDArray condition,
                                             int64_t limit) {
  Builder b;
  std::vector<ValueId> inputs{kNoValue, kNoValue};
  std::vector<NDArray> tensors;
  if (trips.defined()) {
    inputs[0] = b.In("trips", TensorType(kInt64, Shape{}));
    tensors.push_back(trips);
  }
  if (condition.defined()) {
    inputs[1] = b.In("condition", TensorType(kBool, Shape{}));
    tensors.push_back(condition);
  }
  inputs.push_back(b.In("start", TensorType(kInt64, Shape{})));
  tensors.push_back(Long(0));
  const auto made =
      b.Op("Loop", inputs, {{"body", SumOfTrips(limit)}}, {"last", "all"});
  EXPECT_THAT(b.net.SetOutputs(made), IsOk());
  return Interpret(b.net, std::move(tensors));
}

TEST(ControlFlowTest, LoopEndsByTripsOrByItsCondition) {
  const auto by_trips = RunLoop(Long(4), NDArray(), 2);
  ASSERT_THAT(by_trips, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>((*by_trips)[1]), ElementsAre(0, 1, 3, 6));
  const auto by_condition = RunLoop(Long(9), Truth(true), 3);
  ASSERT_THAT(by_condition, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>((*by_condition)[0]), ElementsAre(3));
  EXPECT_THAT(ValuesOf<int64_t>((*by_condition)[1]), ElementsAre(0, 1, 3));
}

TEST(ControlFlowTest, LoopWithoutATripPassesOnWhatCameIn) {
  const auto y = RunLoop(Long(0), NDArray(), 2);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>((*y)[0]), ElementsAre(0));
  EXPECT_THAT((*y)[1].shape(), ElementsAre(0));
}

Subgraph RunningSum() {
  Builder b;
  const ValueId state = b.In("state", TensorType(kFloat32, {1}));
  const ValueId element = b.In("element", TensorType(kFloat32, {1}));
  const ValueId sum = b.Op("Add", {state, element})[0];
  const ValueId scanned = b.Op("Identity", {sum})[0];
  return b.Body({sum, scanned});
}

TEST(ControlFlowTest, ScanGoesEitherWay) {
  for (const int64_t back : {0, 1}) {
    Builder b;
    const ValueId state = b.In("state", TensorType(kFloat32, {1}));
    const ValueId x = b.In("x", TensorType(kFloat32, {3, 1}));
    const auto made =
        b.Op("Scan", {state, x},
             {{"body", RunningSum()},
              {"num_scan_inputs", int64_t{1}},
              {"scan_input_directions", std::vector<int64_t>{back}}},
             {"last", "all"});
    ASSERT_THAT(b.net.SetOutputs(made), IsOk());
    const auto y =
        Interpret(b.net, {Floats({0}), MakeTensor<float>({3, 1}, {1, 2, 4})});
    ASSERT_THAT(y, IsOk());
    EXPECT_THAT(ValuesOf((*y)[0]), ElementsAre(7));
    EXPECT_THAT(ValuesOf((*y)[1]),
                back == 1 ? ElementsAre(4, 6, 7) : ElementsAre(1, 3, 7));
  }
}

TEST(ControlFlowTest, StateThatTheBodyDoesNotTakeIsRefused) {
  Builder body;
  const ValueId trip = body.In("i", TensorType(kInt64, {}));
  const ValueId go = body.In("go", TensorType(kBool, {}));
  const ValueId state = body.In("s", TensorType(kFloat32, {2}));
  const Subgraph graph = body.Body({go, body.Op("Add", {state, state})[0]});
  (void)trip;
  Builder b;
  const ValueId n = b.In("n", TensorType(kInt64, {}));
  const ValueId x = b.In("x", TensorType(kInt64, {7}));
  const OperatorDef* const loop = AllOperators().Find("", "Loop", 21);
  const auto add = [&](std::vector<ValueId> inputs) {
    return b.net.AddOperation(
        {.attrs = MakeAttrs(*loop, {{"body", graph}}).value(),
         .inputs = std::move(inputs)});
  };
  EXPECT_THAT(add({n, kNoValue, x}),
              FailsWith(kInvalid, HasSubstr("as the body has it")));
  EXPECT_THAT(add({n, kNoValue, kNoValue}),
              FailsWith(kInvalid, HasSubstr("is not given")));
}

TEST(EinsumTest, OperandThatIsLeftOutIsRefused) {
  Builder b;
  const ValueId x = b.In("x", TensorType(kFloat32, {2}));
  const OperatorDef* const einsum = AllOperators().Find("", "Einsum", 21);
  EXPECT_THAT(
      b.net.AddOperation(
          {.attrs = MakeAttrs(*einsum, {{"equation", std::string("i,i->i")}})
                        .value(),
           .inputs = {x, kNoValue}}),
      FailsWith(kInvalid, HasSubstr("is not given")));
}

}  // namespace
}  // namespace nodewise
