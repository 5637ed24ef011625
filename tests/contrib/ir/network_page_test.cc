// The examples of docs/network.md, line by line
// (tests/style/network_page_test.py), and that they do what the page says.

#include <gtest/gtest.h>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/pass.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

absl::StatusOr<Network> MakeProduct(const NDArray& weights) {
  Network net("net");
  const TensorType rows(kFloat32, {Dim::Named("batch"), 3});
  NODEWISE_ASSIGN_OR_RETURN(const ValueId x, net.AddInput("x", rows));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId w, net.AddConstant("w", weights));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId y,
                            net.Add(AllOperators(), ops::MatMul{}, {x, w}));
  NODEWISE_RETURN_IF_ERROR(net.SetOutputs({y}));
  return net;
}

// Returns the kinds of a network's operations, in order.
std::vector<std::string_view> KindsOf(const Network& net) {
  std::vector<std::string_view> kinds;
  for (const OperationId id : net.order()) {
    kinds.push_back(net.operation(id).kind());
  }
  return kinds;
}

TEST(NetworkPageTest, ANetworkIsBuiltFromAnInputAConstantAndAnOperation) {
  const NDArray weights = MakeTensor<float>({3, 1}, {1, 10, 100});
  const auto net = MakeProduct(weights);
  ASSERT_THAT(net, IsOk());
  EXPECT_EQ(net->value(net->outputs()[0]).type,
            TensorType(kFloat32, {Dim::Named("batch"), 1}));
  const auto outputs =
      Interpret(*net, {MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(ValuesOf((*outputs)[0]), ElementsAre(321, 654));
}

// Replaces `old`, which is x * HardSigmoid(x).
absl::Status MergeHardSwish(Network& net, ValueId x, ValueId old) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId merged,
                            net.Add(AllOperators(), ops::HardSwish{}, {x}));
  NODEWISE_RETURN_IF_ERROR(net.ReplaceUses({old}, {merged}));
  net.RemoveUnused();
  return absl::OkStatus();
}

// OV-31.
TEST(NetworkPageTest, AnOperationReplacesWhatNothingDependsOnAfterwards) {
  Network net("net");
  const OpSet& all = AllOperators();
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {4})).value();
  const ops::HardSigmoid gate{.alpha = 1.0f / 6};
  const ValueId g = net.Add(all, gate, {x}).value();
  const ValueId old = net.Add(all, ops::Mul{}, {x, g}).value();
  const ValueId y = net.Add(all, ops::Relu{}, {old}).value();
  ASSERT_THAT(net.SetOutputs({y}), IsOk());
  ASSERT_THAT(MergeHardSwish(net, x, old), IsOk());
  EXPECT_THAT(KindsOf(net), ElementsAre("HardSwish", "Relu"));
}

// Gives every Conv that says nothing of strides strides of 1.
absl::Status WriteOutStrides(Network& net) {
  const auto order = net.order();
  for (const OperationId id : std::vector(order.begin(), order.end())) {
    const Operation& operation = net.operation(id);
    const auto* const conv = operation.attrs.As<ops::Conv>();
    if (conv == nullptr || !conv->strides.empty()) continue;
    const TensorType& x = net.value(operation.inputs[0]).type;
    if (!x.has_rank()) continue;
    ops::Conv written = *conv;
    written.strides.assign(static_cast<size_t>(x.rank()) - 2, 1);
    const ValueId old = operation.outputs[0];
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId y, net.Add(AllOperators(), written, operation.inputs));
    NODEWISE_RETURN_IF_ERROR(net.ReplaceUses({old}, {y}));
  }
  net.RemoveUnused();
  return absl::OkStatus();
}

// A network of two convolutions, one with strides.
Network Convolutions() {
  Network net("net");
  const OpSet& all = AllOperators();
  const ValueId x =
      net.AddInput("x", TensorType(kFloat32, {1, 1, 8, 8})).value();
  const NDArray weights = MakeTensor<float>({1, 1, 1, 1}, {2});
  const ValueId w = net.AddConstant("w", weights).value();
  ops::Conv strided;
  strided.strides = {2, 2};
  const ValueId plain = net.Add(all, ops::Conv{}, {x, w}).value();
  const ValueId y = net.Add(all, strided, {plain, w}).value();
  EXPECT_THAT(net.SetOutputs({y}), IsOk());
  return net;
}

// OV-06, OV-35, OV-36: passes read typed attributes, not names and variants.
TEST(NetworkPageTest, APassReadsAttributesAndAddsAChangedCopy) {
  Network net = Convolutions();
  ASSERT_THAT(RunPasses({{"strides", WriteOutStrides}}, {}, net), IsOk());
  EXPECT_THAT(KindsOf(net), ElementsAre("Conv", "Conv"));
  const auto strides = [&](size_t i) {
    return net.operation(net.order()[i]).attrs.As<ops::Conv>()->strides;
  };
  EXPECT_THAT(strides(0), ElementsAre(1, 1));
  EXPECT_THAT(strides(1), ElementsAre(2, 2));
}

// OV-35.
TEST(NetworkPageTest, AttributesOfAnotherClassAreNull) {
  const Network net = Convolutions();
  const Operation& operation = net.operation(net.order()[0]);
  EXPECT_NE(operation.attrs.As<ops::Conv>(), nullptr);
  EXPECT_EQ(operation.attrs.As<ops::ConvInteger>(), nullptr);
}

}  // namespace
}  // namespace nodewise
