// Gradients of operators that run bodies, on networks that are written by hand,
// against central differences.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/gradient/gradient.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/unary.h"
#include "tests/contrib/lab/gradient/central_difference.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;

// A network or a body under construction.
struct Frame {
  Network net{"frame"};

  ValueId In(const Shape& shape, DLDataType dtype = kFloat64) {
    const std::string name = "in" + std::to_string(net.inputs().size());
    return *net.AddInput(name, TensorType(dtype, shape));
  }
  template <typename Class>
  ValueId Add(const Class& op, std::vector<ValueId> inputs) {
    auto made = net.Add(AllOperators(), op, std::move(inputs));
    EXPECT_THAT(made, IsOk());
    return *made;
  }
  // An operation with several outputs.
  template <typename Class>
  std::vector<ValueId> AddAll(const Class& op, std::vector<ValueId> inputs,
                              size_t count) {
    NewOperation operation{
        OpAttrs::From(AllOperators().FindType(&kTypeTag<Class>), op),
        std::move(inputs)};
    for (size_t i = 0; i < count; ++i) {
      operation.outputs.push_back("y" +
                                  std::to_string(net.data().values.size() + i));
    }
    const auto id = net.AddOperation(std::move(operation));
    EXPECT_THAT(id, IsOk());
    return net.operation(*id).outputs;
  }
  ValueId Number(double number, DLDataType dtype = kFloat64) {
    const NDArray data = *NDArray::Empty({}, dtype, kCpu);
    StoreDoubles(&number, 0, 1, data);
    return *net.AddConstant("", data);
  }
  void Out(std::vector<ValueId> outputs) {
    EXPECT_THAT(net.SetOutputs(std::move(outputs)), IsOk());
  }
  // Ends a body.
  Subgraph Body(std::vector<ValueId> outputs, uint32_t captures) {
    Out(std::move(outputs));
    return {ShareNetwork(net), captures};
  }
};

// Compares the gradient for all inputs that are floats with central
// differences. Other inputs are `others`, in their order.
void ExpectGradient(const Network& network, const NDArrays& others = {}) {
  const auto gradient = GradientOf(network, FloatInputs(network));
  ASSERT_THAT(gradient, IsOk());
  EXPECT_THAT(ToStatus(Verify(gradient->network.data())), IsOk());
  RandomSource random(7, "numbers");
  Point point(network, *gradient, &random);
  for (int round = 0; round < 3; ++round) {
    NDArrays inputs;
    size_t other = 0;
    for (const ValueId id : network.inputs()) {
      const TensorType& type = network.value(id).type;
      CaseInput input;
      input.shape = *type.sizes();
      inputs.push_back(type.dtype == kFloat64
                           ? DrawDoubles(input, {0.3, 1.2}, &random)
                           : others[other++]);
    }
    const auto differs = point.Differs(inputs);
    ASSERT_TRUE(differs.has_value());
    EXPECT_EQ(*differs, "");
  }
}

NDArray Scalar(double number, DLDataType dtype) {
  const NDArray data = *NDArray::Empty({}, dtype, kCpu);
  StoreDoubles(&number, 0, 1, data);
  return data;
}

// An If that gives x * x * y or sin(x), and x or y.
Network Chosen() {
  Frame then;
  const ValueId a = then.In({2});
  const ValueId b = then.In({2});
  const Subgraph then_branch = then.Body(
      {then.Add(ops::Mul{}, {then.Add(ops::Mul{}, {a, a}), b}), a}, 2);
  Frame other;
  const ValueId c = other.In({2});
  const ValueId d = other.In({2});
  const Subgraph else_branch = other.Body({other.Add(ops::Sin{}, {c}), d}, 2);
  Frame net;
  const ValueId condition = net.In({}, kBool);
  const ValueId x = net.In({2});
  const ValueId y = net.In({2});
  const auto made =
      net.AddAll(ops::If{else_branch, then_branch}, {condition, x, y, x, y}, 2);
  net.Out({net.Add(ops::Exp{}, {made[0]}), made[1]});
  return net.net;
}

TEST(ControlGradientTest, AnIfHasTheGradientOfTheBranchThatItTakes) {
  ExpectGradient(Chosen(), {Scalar(1, kBool)});
  ExpectGradient(Chosen(), {Scalar(0, kBool)});
}

TEST(ControlGradientTest, ABranchMayCaptureNothing) {
  Frame then;
  const ValueId a = then.In({});
  const Subgraph then_branch = then.Body({then.Add(ops::Exp{}, {a})}, 1);
  Frame other;
  const Subgraph else_branch = other.Body({other.Number(3)}, 0);
  for (const double condition : {0.0, 1.0}) {
    Frame net;
    const ValueId chosen = net.In({}, kBool);
    const ValueId x = net.In({});
    net.Out({net.Add(ops::If{else_branch, then_branch}, {chosen, x})});
    ExpectGradient(net.net, {Scalar(condition, kBool)});
  }
}

// The body makes v * w + sin(v) of v, and scans v * number of the trip. Where
// it has a limit, it ends when the sum of v is above it.
Subgraph LoopBody(std::optional<double> limit) {
  Frame body;
  const ValueId trip = body.In({}, kInt64);
  ValueId goes_on = body.In({}, kBool);
  const ValueId v = body.In({3});
  const ValueId w = body.In({3});
  const ValueId next = body.Add(
      ops::Add{}, {body.Add(ops::Mul{}, {v, w}), body.Add(ops::Sin{}, {v})});
  const ValueId scanned =
      body.Add(ops::Mul{}, {v, body.Add(ops::Cast{kFloat64}, {trip})});
  if (limit.has_value()) {
    const ValueId sum = body.Add(ops::ReduceSum{ops::ReduceAttributes{false}},
                                 {body.Add(ops::Abs{}, {next})});
    goes_on = body.Add(ops::Less{}, {sum, body.Number(*limit)});
  } else {
    goes_on = body.Add(ops::Identity{}, {goes_on});
  }
  return body.Body({goes_on, next, scanned}, 1);
}

TEST(ControlGradientTest, ALoopGoesBackThroughItsTrips) {
  Frame net;
  const ValueId v = net.In({3});
  const ValueId w = net.In({3});
  const auto made = net.AddAll(ops::Loop{LoopBody({})},
                               {net.Number(4, kInt64), kNoValue, v, w}, 2);
  net.Out({net.Add(ops::Exp{}, {made[0]}), net.Add(ops::Sin{}, {made[1]})});
  ExpectGradient(net.net);
}

TEST(ControlGradientTest, ALoopThatEndsEarlyGoesBackThroughAsManyTrips) {
  for (const double limit : {0.1, 4.0, 8.0}) {
    Frame net;
    const ValueId v = net.In({3});
    const ValueId w = net.In({3});
    const auto made =
        net.AddAll(ops::Loop{LoopBody(limit)},
                   {net.Number(5, kInt64), net.Number(1, kBool), v, w}, 2);
    net.Out(made);
    ExpectGradient(net.net);
  }
}

TEST(ControlGradientTest, ALoopWithoutATripPassesOnWhatReachesIt) {
  Frame net;
  const ValueId v = net.In({3});
  const ValueId w = net.In({3});
  const ValueId trips = net.In({}, kInt64);
  const auto made =
      net.AddAll(ops::Loop{LoopBody({})}, {trips, kNoValue, v, w}, 2);
  net.Out({net.Add(ops::Sin{}, {made[0]}), made[1]});
  ExpectGradient(net.net, {Scalar(0, kInt64)});
  ExpectGradient(net.net, {Scalar(3, kInt64)});
}

// Only the second value is differentiated at first: a = a + b; b = b * b.
TEST(ControlGradientTest, AValueMayComeToDependOnAnotherInALaterTrip) {
  Frame body;
  body.In({}, kInt64);
  const ValueId goes_on = body.In({}, kBool);
  const ValueId a = body.In({2});
  const ValueId b = body.In({2});
  const Subgraph graph =
      body.Body({body.Add(ops::Identity{}, {goes_on}),
                 body.Add(ops::Add{}, {a, b}), body.Add(ops::Mul{}, {b, b})},
                0);
  Frame net;
  const ValueId y = net.In({2});
  const ValueId zero = net.Add(ops::Floor{}, {y});
  net.Out({net.AddAll(ops::Loop{graph},
                      {net.Number(3, kInt64), kNoValue, zero, y}, 2)[0]});
  ExpectGradient(net.net);
}

// Constants outside of a body decide on shapes in it.
TEST(ControlGradientTest, ABodyKnowsTheConstantsThatItCaptures) {
  Frame body;
  body.In({}, kInt64);
  const ValueId goes_on = body.In({}, kBool);
  const ValueId v = *body.net.AddInput("v", TensorType(kFloat64));
  const ValueId sizes = *body.net.AddInput("sizes", TensorType(kInt64));
  const ValueId column = body.Add(ops::Reshape{}, {v, sizes});
  const Subgraph graph = body.Body(
      {body.Add(ops::Identity{}, {goes_on}),
       body.Add(ops::Mul{}, {v, body.Add(ops::ReduceSum{}, {column})})},
      1);
  Frame net;
  const ValueId x = net.In({1, 4});
  const NDArray shape = *NDArray::Empty({2}, kInt64, kCpu);
  shape.As<int64_t>()[0] = 4;
  shape.As<int64_t>()[1] = 1;
  const ValueId sides = *net.net.AddConstant("sides", shape);
  net.Out(
      {net.Add(ops::Loop{graph}, {net.Number(2, kInt64), kNoValue, x, sides})});
  ExpectGradient(net.net);
}

// A loop in a loop in a branch.
TEST(ControlGradientTest, BodiesMayHaveBodies) {
  Frame middle;
  middle.In({}, kInt64);
  const ValueId goes_on = middle.In({}, kBool);
  const ValueId v = middle.In({3});
  const ValueId w = middle.In({3});
  const auto inner =
      middle.AddAll(ops::Loop{LoopBody(5)},
                    {middle.Number(3, kInt64), middle.Number(1, kBool),
                     middle.Add(ops::Sin{}, {v}), w},
                    1);
  const Subgraph graph =
      middle.Body({middle.Add(ops::Identity{}, {goes_on}),
                   middle.Add(ops::Mul{}, {inner[0], middle.Number(0.5)})},
                  1);
  Frame then;
  const ValueId a = then.In({3});
  const ValueId b = then.In({3});
  const Subgraph then_branch = then.Body(
      {then.Add(ops::Loop{graph}, {then.Number(2, kInt64), kNoValue, a, b})},
      2);
  Frame other;
  const ValueId c = other.In({3});
  const Subgraph else_branch = other.Body({other.Add(ops::Exp{}, {c})}, 1);
  for (const double condition : {0.0, 1.0}) {
    Frame net;
    const ValueId chosen = net.In({}, kBool);
    const ValueId x = net.In({3});
    const ValueId y = net.In({3});
    net.Out({net.Add(ops::If{else_branch, then_branch}, {chosen, y, x, y})});
    ExpectGradient(net.net, {Scalar(condition, kBool)});
  }
}

// s = s * x + c, with s as the element that is stacked.
Network Scanned(const ops::Scan& attributes, const Shape& scanned) {
  Frame body;
  const ValueId s = body.In({2});
  const ValueId x = body.In({2});
  const ValueId c = body.In({2});
  const ValueId next = body.Add(
      ops::Add{}, {body.Add(ops::Mul{}, {s, body.Add(ops::Sin{}, {x})}), c});
  ops::Scan scan = attributes;
  scan.body = body.Body({next, body.Add(ops::Mul{}, {next, x})}, 1);
  scan.num_scan_inputs = 1;
  Frame net;
  const ValueId state = net.In({2});
  const ValueId data = net.In(scanned);
  const ValueId captured = net.In({2});
  const auto made = net.AddAll(scan, {state, data, captured}, 2);
  net.Out({made[0], net.Add(ops::Exp{}, {made[1]})});
  return net.net;
}

TEST(ControlGradientTest, AScanGoesAlongAnySideInBothDirections) {
  ExpectGradient(Scanned({}, {4, 2}));
  ops::Scan back;
  back.scan_input_directions = {1};
  back.scan_output_directions = {1};
  ExpectGradient(Scanned(back, {4, 2}));
  ops::Scan sides;
  sides.scan_input_axes = {-1};
  sides.scan_output_axes = {1};
  ExpectGradient(Scanned(sides, {2, 3}));
}

TEST(ControlGradientTest, AGradientHasAGradient) {
  Frame net;
  const ValueId v = net.In({3});
  const ValueId w = net.In({3});
  const auto made = net.AddAll(ops::Loop{LoopBody({})},
                               {net.Number(3, kInt64), kNoValue, v, w}, 1);
  net.Out(made);
  const auto gradient = GradientOf(net.net, FloatInputs(net.net));
  ASSERT_THAT(gradient, IsOk());
  ExpectGradient(gradient->network);
  ExpectGradient(GradientOf(Chosen(), FloatInputs(Chosen()))->network,
                 {Scalar(1, kBool)});
}

TEST(ControlGradientTest, CarriedValuesThatGrowAreRefused) {
  Frame body;
  body.In({}, kInt64);
  const ValueId goes_on = body.In({}, kBool);
  const ValueId v = *body.net.AddInput("v", TensorType(kFloat64, {Dim()}));
  const Subgraph graph =
      body.Body({body.Add(ops::Identity{}, {goes_on}),
                 body.Add(ops::Concat{0}, {v, body.Add(ops::Sin{}, {v})})},
                0);
  Frame net;
  const ValueId x = net.In({2});
  net.Out({net.Add(ops::Loop{graph}, {net.Number(2, kInt64), kNoValue, x})});
  EXPECT_THAT(GradientOf(net.net, FloatInputs(net.net)),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("carried values keep their sizes")));
}

}  // namespace
}  // namespace nodewise
