#include <gtest/gtest.h>

#include "nodewise/ir/network.h"
#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::Ops;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Names(const Network& net,
                               absl::Span<const ValueId> ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(net.value(id).name);
  return names;
}

std::vector<std::string> Operations(const Network& net) {
  std::vector<std::string> names;
  for (const OperationId id : net.order()) {
    names.push_back(net.operation(id).name);
  }
  return names;
}

// p = relu x, q = relu y, k = dequantize w (a constant), sum = p + q,
// out = sum + k.
class SubnetworkTest : public testing::Test {
 protected:
  SubnetworkTest() { EXPECT_THAT(net_.SetOutputs({out_}), IsOk()); }

  absl::StatusOr<Network> Extract(std::vector<ValueId> from,
                                  std::vector<ValueId> to) {
    auto part = ExtractNetwork(net_, from, to);
    if (part.ok()) {
      EXPECT_EQ(FindingReport(Verify(part->data())), FindingReport({}));
    }
    return part;
  }

  Network net_{"net"};
  ValueId x_ = net_.AddInput("x", TensorType(kFloat32, {2})).value();
  ValueId y_ = net_.AddInput("y", TensorType(kFloat32, {2})).value();
  ValueId w_ = net_.AddConstant("w", MakeTensor<int8_t>({2}, {1, 2})).value();
  ValueId p_ = net_.Add(Ops(), test_ops::Relu{}, {x_}, "p").value();
  ValueId q_ = net_.Add(Ops(), test_ops::Relu{}, {y_}, "q").value();
  ValueId k_ = net_.Add(Ops(), test_ops::Dequantize{}, {w_}, "k").value();
  ValueId sum_ = net_.Add(Ops(), test_ops::Add{}, {p_, q_}, "sum").value();
  ValueId out_ = net_.Add(Ops(), test_ops::Add{}, {sum_, k_}, "out").value();
};

TEST_F(SubnetworkTest, WithoutStartItBeginsAtTheInputs) {
  const Network part = Extract({}, {p_}).value();
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("x"));
  EXPECT_THAT(Operations(part), ElementsAre("p"));
  EXPECT_THAT(Names(part, part.outputs()), ElementsAre("p"));
}

TEST_F(SubnetworkTest, WholeNetworkIsItsOwnPart) {
  const Network part = Extract({}, {out_}).value();
  EXPECT_THAT(Operations(part), ElementsAre("p", "q", "k", "sum", "out"));
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("x", "y"));
}

TEST_F(SubnetworkTest, ConstantsComeAlongAndOthersBecomeInputs) {
  const Network part = Extract({p_}, {out_}).value();
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("p", "q"));
  EXPECT_THAT(Operations(part), ElementsAre("k", "sum", "out"));
  EXPECT_EQ(part.value(part.FindValue("w").value()).kind,
            NetworkValue::Kind::kConstant);
}

TEST_F(SubnetworkTest, OneOperationCanBeCutOut) {
  const Network part = Extract({sum_, k_}, {out_}).value();
  EXPECT_THAT(Operations(part), ElementsAre("out"));
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("sum", "k"));
}

TEST_F(SubnetworkTest, InputsThatAreNeededTooBecomeInputs) {
  const Network part = Extract({x_}, {sum_}).value();
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("x", "q"));
}

TEST_F(SubnetworkTest, EndMayBeAStart) {
  const Network part = Extract({p_}, {p_, sum_}).value();
  EXPECT_THAT(Names(part, part.outputs()), ElementsAre("p", "sum"));
  EXPECT_EQ(part.outputs()[0], part.inputs()[0]);
}

TEST_F(SubnetworkTest, CutThroughOneOfSeveralOutputs) {
  const OperationId split =
      net_.AddOperation({.attrs = test_ops::AttrsOf<test_ops::Split>(),
                         .inputs = {x_},
                         .name = "split",
                         .outputs = {"s0", "s1"}})
          .value();
  const ValueId s0 = net_.operation(split).outputs[0];
  const ValueId s1 = net_.operation(split).outputs[1];
  const ValueId both = net_.Add(Ops(), test_ops::Add{}, {s0, s1}, "b").value();
  const Network part = ExtractNetwork(net_, {x_, s0}, {both}).value();
  EXPECT_THAT(Names(part, part.inputs()), ElementsAre("x", "s0"));
  EXPECT_THAT(Operations(part), ElementsAre("split", "b"));
  EXPECT_EQ(part.operation(part.order()[1]).inputs[0], part.inputs()[1]);
  EXPECT_THAT(ToStatus(Verify(part.data())), IsOk());
}

TEST_F(SubnetworkTest, BarriersWithinThePartStay) {
  ASSERT_THAT(net_.RunAfter(net_.value(q_).producer, net_.value(p_).producer),
              IsOk());
  const Network part = Extract({}, {sum_}).value();
  EXPECT_THAT(Operations(part), ElementsAre("q", "p", "sum"));
  EXPECT_EQ(part.operation(part.order()[1]).after.size(), 1u);
  const Network less = Extract({}, {p_}).value();
  EXPECT_TRUE(less.operation(less.order()[0]).after.empty());
}

TEST_F(SubnetworkTest, StartThatNothingDependsOnIsNamed) {
  EXPECT_THAT(Extract({y_}, {p_}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("value y: no end of the part depends on")));
}

TEST_F(SubnetworkTest, PlacesThatAreNotTensorsAreRefused) {
  EXPECT_THAT(Extract({}, {}), FailsWith(StatusCode::kInvalidArgument,
                                         HasSubstr("a part without any end")));
  EXPECT_THAT(Extract({ValueId{99}}, {p_}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("start of the part: is value %99")));
  EXPECT_THAT(
      Extract({}, {net_.operation(OperationId{0}).barrier}),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("end of the part: is the barrier of operation p")));
}

}  // namespace
}  // namespace nodewise
