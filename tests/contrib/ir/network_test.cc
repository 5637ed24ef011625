#include "nodewise/ir/network.h"

#include <gtest/gtest.h>

#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using test_ops::AttrsOf;
using test_ops::Ops;
using test_ops::TextOf;
using testing::ElementsAre;

Dim N(const char* name) { return Dim::Named(name); }

bool IsValid(const Network& network) {
  return ToStatus(Verify(network.data())).ok();
}

std::string TypeOf(const Network& network, ValueId id) {
  return ToString(network.value(id).type);
}

OperationId MakerOf(const Network& network, ValueId id) {
  return network.value(id).producer;
}

std::vector<std::string> OrderOf(const Network& network) {
  std::vector<std::string> names;
  for (const OperationId id : network.order()) {
    names.push_back(network.operation(id).name);
  }
  return names;
}

// x -> relu a -> relu b -> relu c, an output.
struct Chain {
  Network net{"chain"};
  ValueId x = net.AddInput("x", TensorType(kFloat32, {N("n"), 3})).value();
  ValueId a = net.Add(Ops(), test_ops::Relu{}, {x}, "a").value();
  ValueId b = net.Add(Ops(), test_ops::Relu{}, {a}, "b").value();
  ValueId c = net.Add(Ops(), test_ops::Relu{}, {b}, "c").value();

  Chain() { EXPECT_THAT(net.SetOutputs({c}), IsOk()); }
};

// OV-02, OV-03, OV-23.
TEST(NetworkTest, OperationIsLinkedBothWays) {
  const Chain chain;
  const Operation& b = chain.net.operation(MakerOf(chain.net, chain.b));
  EXPECT_THAT(b.inputs, ElementsAre(chain.a));
  EXPECT_THAT(chain.net.value(chain.a).uses, ElementsAre(Use{b.id, 0}));
  EXPECT_EQ(chain.net.value(chain.b).producer, b.id);
  EXPECT_TRUE(IsValid(chain.net));
}

// OV-24, OV-25.
TEST(NetworkTest, OrderIsThatOfAdding) {
  const Chain chain;
  EXPECT_THAT(OrderOf(chain.net), ElementsAre("a", "b", "c"));
}

// OV-26, OV-27.
TEST(NetworkTest, EveryOperationHasOneBarrier) {
  const Chain chain;
  for (const OperationId id : chain.net.order()) {
    const NetworkValue& barrier =
        chain.net.value(chain.net.operation(id).barrier);
    EXPECT_EQ(barrier.kind, NetworkValue::Kind::kBarrier);
    EXPECT_EQ(barrier.producer, id);
  }
}

// OV-06.
TEST(NetworkTest, OutputsAreInferredAtOnce) {
  Chain chain;
  const ValueId bias =
      chain.net
          .AddConstant("bias",
                       MakeTensor<float>({5, 1, 3}, std::vector<float>(15)))
          .value();
  const ValueId sum =
      chain.net.Add(Ops(), test_ops::Add{}, {chain.x, bias}).value();
  EXPECT_EQ(TypeOf(chain.net, sum), "float32[5, n, 3]");
}

TEST(NetworkTest, NamesAreMadeWhereNoneAreGiven) {
  Network net;
  const ValueId x = net.AddInput("Relu_0", TensorType(kFloat32)).value();
  const ValueId y = net.Add(Ops(), test_ops::Relu{}, {x}).value();
  EXPECT_EQ(net.operation(MakerOf(net, y)).name, "Relu_0");
  EXPECT_EQ(net.value(y).name, "Relu_0_1");
  EXPECT_EQ(net.FindValue("Relu_0_1").value(), y);
  EXPECT_TRUE(IsValid(net));
}

TEST(NetworkTest, RowIsThatOfTheOpset) {
  Network net;
  ASSERT_THAT(net.SetOpset("", 13), IsOk());
  const ValueId x = net.AddInput("x", TensorType(kFloat32)).value();
  const ValueId y = net.Add(Ops(), test_ops::Relu{}, {x}).value();
  EXPECT_EQ(net.operation(MakerOf(net, y)).def().since, 6);
}

// OV-24.
TEST(NetworkTest, OperationCanGoBeforeAnother) {
  Chain chain;
  ASSERT_THAT(chain.net.AddOperation({.attrs = AttrsOf<test_ops::Relu>(),
                                      .inputs = {chain.a},
                                      .name = "new",
                                      .before = MakerOf(chain.net, chain.b)}),
              IsOk());
  EXPECT_THAT(OrderOf(chain.net), ElementsAre("a", "new", "b", "c"));
  EXPECT_TRUE(IsValid(chain.net));
}

TEST(NetworkTest, OptionalOutputsAndInputsMayBeLeftOut) {
  Network net;
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  const OperationId id = net.AddOperation({.attrs = AttrsOf<test_ops::Clip>(),
                                           .inputs = {x, kNoValue, x},
                                           .outputs = {"y", "mask"}})
                             .value();
  EXPECT_EQ(TypeOf(net, net.operation(id).outputs[1]), "bool[2]");
  ASSERT_THAT(net.AddOperation({.attrs = AttrsOf<test_ops::Clip>(),
                                .inputs = {x},
                                .outputs = {"z", ""}}),
              IsOk());
  EXPECT_TRUE(IsValid(net));
}

// OV-12.
TEST(NetworkTest, ElementsOfShapesFlowIntoShapes) {
  Network net;
  const ValueId x =
      net.AddInput("x", TensorType(kFloat32, {N("n"), 3})).value();
  const ValueId shape = net.Add(Ops(), test_ops::ShapeOf{}, {x}).value();
  const ValueId y = net.Add(Ops(), test_ops::Reshape{}, {x, shape}).value();
  EXPECT_EQ(TypeOf(net, y), "float32[n, 3]");
  ASSERT_THAT(net.BindDim("n", 4), IsOk());
  EXPECT_EQ(TypeOf(net, y), "float32[4, 3]");
  EXPECT_EQ(*net.value(shape).elements, (Shape{4, 3}));
}

// OV-12, OV-34, OV-40.
TEST(NetworkTest, InferenceGoesDownstreamWhileSomethingChanges) {
  Chain chain;
  test_ops::Relu::inferences = 0;
  ASSERT_THAT(chain.net.SetInputType(chain.x, TensorType(kFloat32, {7, 3})),
              IsOk());
  EXPECT_EQ(test_ops::Relu::inferences, 3);
  EXPECT_EQ(TypeOf(chain.net, chain.c), "float32[7, 3]");
}

// OV-40.
TEST(NetworkTest, InferenceStopsWhereNothingChanges) {
  Chain chain;
  const ValueId other =
      chain.net.AddInput("other", TensorType(kFloat32, {N("n"), 3})).value();
  test_ops::Relu::inferences = 0;
  ASSERT_THAT(chain.net.ReplaceInput(MakerOf(chain.net, chain.a), 0, other),
              IsOk());
  EXPECT_EQ(test_ops::Relu::inferences, 1);
  EXPECT_TRUE(IsValid(chain.net));
}

// OV-34.
TEST(NetworkTest, InferringAgainChangesNothing) {
  Chain chain;
  const uint64_t version = chain.net.version();
  EXPECT_EQ(chain.net.InferAgain().value(), 0u);
  EXPECT_EQ(chain.net.version(), version);
}

// OV-24.
TEST(NetworkTest, ReadingALaterValueMovesTheReaderBehindIt) {
  Chain chain;
  const ValueId late =
      chain.net.Add(Ops(), test_ops::Relu{}, {chain.x}, "late").value();
  const ValueId other =
      chain.net.Add(Ops(), test_ops::Relu{}, {chain.x}, "other").value();
  ASSERT_THAT(chain.net.ReplaceInput(MakerOf(chain.net, chain.b), 0, late),
              IsOk());
  // Only b and what depends on it moves, not further than it must.
  EXPECT_THAT(OrderOf(chain.net), ElementsAre("a", "late", "b", "c", "other"));
  EXPECT_TRUE(IsValid(chain.net));
  static_cast<void>(other);
}

TEST(NetworkTest, OptionalInputIsGivenAndTakenAway) {
  Network net;
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  const ValueId y = net.Add(Ops(), test_ops::Clip{}, {x}).value();
  const OperationId clip = MakerOf(net, y);
  ASSERT_THAT(net.ReplaceInput(clip, 2, x), IsOk());
  EXPECT_THAT(net.operation(clip).inputs, ElementsAre(x, kNoValue, x));
  EXPECT_EQ(net.value(x).uses.size(), 2u);
  ASSERT_THAT(net.ReplaceInput(clip, 2, kNoValue), IsOk());
  EXPECT_EQ(net.value(x).uses.size(), 1u);
  EXPECT_TRUE(IsValid(net));
}

// OV-31, OV-32.
TEST(NetworkTest, PartIsReplacedByNewOperations) {
  Chain chain;
  const ValueId sum =
      chain.net.Add(Ops(), test_ops::Add{}, {chain.x, chain.x}, "sum").value();
  ASSERT_THAT(chain.net.ReplaceUses({chain.b}, {sum}), IsOk());
  EXPECT_EQ(chain.net.RemoveUnused(), 2u);
  EXPECT_THAT(OrderOf(chain.net), ElementsAre("sum", "c"));
  EXPECT_TRUE(Verify(chain.net.data()).empty());
}

// OV-31.
TEST(NetworkTest, SomethingCanBePutBehindAValue) {
  Chain chain;
  const ValueId twice =
      chain.net.Add(Ops(), test_ops::Add{}, {chain.b, chain.b}, "twice")
          .value();
  const ValueId scaled =
      chain.net.Add(Ops(), test_ops::Softmax{}, {twice}, "scaled").value();
  ASSERT_THAT(chain.net.ReplaceUses({chain.b}, {scaled}), IsOk());
  EXPECT_THAT(OrderOf(chain.net),
              ElementsAre("a", "b", "twice", "scaled", "c"));
  EXPECT_EQ(chain.net.value(chain.b).uses.size(), 2u);
  EXPECT_TRUE(Verify(chain.net.data()).empty());
}

// OV-31.
TEST(NetworkTest, OutputsAreReplacedLikeUses) {
  Chain chain;
  ASSERT_THAT(chain.net.SetOutputs({chain.c, chain.b, chain.c}), IsOk());
  ASSERT_THAT(chain.net.ReplaceUses({chain.c}, {chain.a}), IsOk());
  EXPECT_THAT(chain.net.outputs(), ElementsAre(chain.a, chain.b, chain.a));
}

TEST(NetworkTest, TwoValuesCanChangePlaces) {
  Network net;
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {2})).value();
  const ValueId y = net.AddInput("y", TensorType(kFloat32, {3, 1})).value();
  const ValueId a = net.Add(Ops(), test_ops::Relu{}, {x}).value();
  const ValueId b = net.Add(Ops(), test_ops::Relu{}, {y}).value();
  ASSERT_THAT(net.ReplaceUses({x, y}, {y, x}), IsOk());
  EXPECT_EQ(TypeOf(net, a), "float32[3, 1]");
  EXPECT_EQ(TypeOf(net, b), "float32[2]");
  EXPECT_TRUE(IsValid(net));
}

// OV-28, OV-29.
TEST(NetworkTest, BarrierOrdersIndependentOperations) {
  Network net;
  const ValueId x = net.AddInput("x", TensorType(kFloat32)).value();
  const ValueId a = net.Add(Ops(), test_ops::Relu{}, {x}, "a").value();
  const ValueId b = net.Add(Ops(), test_ops::Relu{}, {x}, "b").value();
  ASSERT_THAT(net.RunAfter(MakerOf(net, b), MakerOf(net, a)), IsOk());
  EXPECT_THAT(OrderOf(net), ElementsAre("b", "a"));
  ASSERT_THAT(net.RunAfter(MakerOf(net, b), MakerOf(net, a)), IsOk());
  EXPECT_EQ(net.operation(MakerOf(net, a)).after.size(), 1u);
  EXPECT_TRUE(IsValid(net));
}

// OV-30.
TEST(NetworkTest, UnusedOperationsAndConstantsGoInputsStay) {
  Chain chain;
  const ValueId w = chain.net.AddConstant("", Floats({1})).value();
  ASSERT_THAT(chain.net.Add(Ops(), test_ops::Add{}, {chain.c, w}), IsOk());
  EXPECT_EQ(chain.net.RemoveUnused(), 1u);
  EXPECT_FALSE(chain.net.Has(w));
  ASSERT_THAT(chain.net.SetOutputs({}), IsOk());
  EXPECT_EQ(chain.net.RemoveUnused(), 3u);
  EXPECT_TRUE(chain.net.Has(chain.x));
  EXPECT_TRUE(chain.net.value(chain.x).uses.empty());
}

// OV-29.
TEST(NetworkTest, BarrierKeepsWhatItComesFrom) {
  Chain chain;
  const ValueId side =
      chain.net.Add(Ops(), test_ops::Relu{}, {chain.x}, "side").value();
  ASSERT_THAT(
      chain.net.RunAfter(MakerOf(chain.net, side), MakerOf(chain.net, chain.c)),
      IsOk());
  EXPECT_EQ(chain.net.RemoveUnused(), 0u);
}

TEST(NetworkTest, RemovedNumbersAreNotGivenAgain) {
  Chain chain;
  const ValueId extra =
      chain.net.Add(Ops(), test_ops::Relu{}, {chain.c}, "extra").value();
  ASSERT_THAT(chain.net.Remove(MakerOf(chain.net, extra)), IsOk());
  EXPECT_FALSE(chain.net.Has(extra));
  EXPECT_FALSE(chain.net.FindValue("extra").ok());
  const ValueId next =
      chain.net.Add(Ops(), test_ops::Relu{}, {chain.c}, "extra").value();
  EXPECT_GT(Index(next), Index(extra));
  EXPECT_TRUE(IsValid(chain.net));
}

TEST(NetworkTest, FrozenInputIsAConstantOfThatData) {
  Chain chain;
  ASSERT_THAT(chain.net.Freeze(
                  chain.x, MakeTensor<float>({2, 3}, std::vector<float>(6))),
              IsOk());
  EXPECT_EQ(chain.net.value(chain.x).kind, NetworkValue::Kind::kConstant);
  EXPECT_TRUE(chain.net.inputs().empty());
  EXPECT_EQ(TypeOf(chain.net, chain.c), "float32[2, 3]");
  EXPECT_TRUE(IsValid(chain.net));
}

TEST(NetworkTest, FreezingBindsNamesElsewhere) {
  Chain chain;
  const ValueId y =
      chain.net.AddInput("y", TensorType(kFloat32, {N("n")})).value();
  ASSERT_THAT(chain.net.Freeze(y, Floats({1, 2})), IsOk());
  EXPECT_EQ(TypeOf(chain.net, chain.c), "float32[2, 3]");
}

TEST(NetworkTest, NamesAreBoundInBodiesToo) {
  Network inner("body");
  const ValueId p = inner.AddInput("p", TensorType(kFloat32, {N("n")})).value();
  ASSERT_THAT(inner.SetOutputs({p}), IsOk());
  const SharedNetwork body = ShareNetwork(std::move(inner));
  Network net;
  const ValueId cond = net.AddInput("cond", TensorType(kBool, {})).value();
  const ValueId x = net.AddInput("x", TensorType(kFloat32, {N("n")})).value();
  const ValueId y =
      net.Add(Ops(),
              test_ops::If{.then_branch = {body, 1}, .else_branch = {body, 1}},
              {cond, x, x})
          .value();
  ASSERT_THAT(net.BindDim("n", 5), IsOk());
  EXPECT_EQ(TypeOf(net, y), "float32[5]");
  EXPECT_EQ(ToString(body->value(p).type), "float32[n]");
  EXPECT_TRUE(IsValid(net));
}

TEST(NetworkTest, RenamedItemsAreFoundByTheNewName) {
  Chain chain;
  ASSERT_THAT(chain.net.Rename(chain.a, "first"), IsOk());
  ASSERT_THAT(chain.net.Rename(MakerOf(chain.net, chain.a), "b2"), IsOk());
  EXPECT_EQ(chain.net.FindValue("first").value(), chain.a);
  EXPECT_FALSE(chain.net.FindValue("a").ok());
  EXPECT_TRUE(chain.net.FindOperation("b2").ok());
  EXPECT_TRUE(IsValid(chain.net));
}

TEST(NetworkTest, CopyIsIndependent) {
  const Chain chain;
  Network copy = chain.net;
  ASSERT_THAT(copy.SetOutputs({chain.a}), IsOk());
  EXPECT_EQ(copy.RemoveUnused(), 2u);
  EXPECT_EQ(chain.net.order().size(), 3u);
  EXPECT_TRUE(IsValid(chain.net));
  EXPECT_TRUE(IsValid(copy));
}

TEST(NetworkTest, ValidDataMakesANetworkThatCanBeEdited) {
  const Chain chain;
  Network again = Network::FromData(chain.net.data()).value();
  ASSERT_THAT(again.Add(Ops(), test_ops::Relu{}, {chain.a}, "d"), IsOk());
  EXPECT_FALSE(again.Add(Ops(), test_ops::Relu{}, {chain.a}, "d").ok());
  ASSERT_THAT(again.Remove(again.FindOperation("d").value()), IsOk());
  EXPECT_TRUE(IsValid(again));
}

TEST(NetworkTest, ConstantThatIsNotCompactIsCopied) {
  const NDArray data = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  int64_t strides[] = {1, 2};
  DLTensor turned = *data;
  turned.strides = strides;
  Network net;
  const ValueId w =
      net.AddConstant("w",
                      NDArray::Borrow(turned, std::make_shared<NDArray>(data)))
          .value();
  EXPECT_EQ(ValuesOf(net.value(w).data), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_TRUE(IsValid(net));
}

// Takes half a second; if the time of an edit grew with the network, it would
// take hours and exceed the time limit.
TEST(NetworkTest, HundredThousandOperationsCanBeEdited) {
  Network net("long");
  ValueId last = net.AddInput("x", TensorType(kFloat32, {2})).value();
  const ValueId w = net.AddConstant("w", Floats({1, 2})).value();
  for (int i = 0; i < 100'000; ++i) {
    last = net.Add(Ops(), test_ops::Add{}, {last, w}).value();
  }
  ASSERT_THAT(net.SetOutputs({last}), IsOk());
  EXPECT_TRUE(Verify(net.data()).empty());
  ASSERT_THAT(net.SetInputType(net.inputs()[0], TensorType(kFloat32, {5, 2})),
              IsOk());
  ASSERT_THAT(net.SetOutputs({}), IsOk());
  EXPECT_EQ(net.RemoveUnused(), 100'000u);
}

}  // namespace
}  // namespace nodewise
