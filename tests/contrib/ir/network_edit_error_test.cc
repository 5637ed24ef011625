// What edits refuse, the place that they name, and that nothing changes.

#include <gtest/gtest.h>

#include "nodewise/ir/network.h"
#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::AttrsOf;
using test_ops::Ops;
using test_ops::TextOf;
using testing::HasSubstr;

constexpr ValueId kUnknownValue{99};
constexpr OperationId kUnknownOperation{99};

// (x, y) -> add -> relu -> softmax over the last side, the output.
class NetworkEditErrorTest : public testing::Test {
 protected:
  NetworkEditErrorTest() {
    EXPECT_THAT(net_.SetOutputs({s_}), IsOk());
    text_ = TextOf(net_);
    version_ = net_.version();
  }

  // Expects that the edit was refused in this way and changed nothing.
  template <typename Result>
  void ExpectRefused(const Result& result, StatusCode code,
                     const std::string& message) {
    EXPECT_THAT(result, FailsWith(code, HasSubstr(message)));
    EXPECT_EQ(TextOf(net_), text_);
    EXPECT_EQ(net_.version(), version_);
    EXPECT_THAT(ToStatus(Verify(net_.data())), IsOk());
  }
  template <typename Result>
  void ExpectRefused(const Result& result, const std::string& message) {
    ExpectRefused(result, StatusCode::kInvalidArgument, message);
  }

  OperationId Maker(ValueId id) const { return net_.value(id).producer; }
  absl::StatusOr<OperationId> AddRelu(NewOperation operation) {
    operation.attrs = AttrsOf<test_ops::Relu>();
    return net_.AddOperation(std::move(operation));
  }

  Network net_{"net"};
  ValueId x_ =
      net_.AddInput("x", TensorType(kFloat32, {Dim::Named("n"), 3})).value();
  ValueId y_ = net_.AddInput("y", TensorType(kFloat32, {3})).value();
  ValueId i_ = net_.AddInput("i", TensorType(kInt64, {3})).value();
  ValueId a_ = net_.Add(Ops(), test_ops::Add{}, {x_, y_}, "add").value();
  ValueId r_ = net_.Add(Ops(), test_ops::Relu{}, {a_}, "relu").value();
  ValueId s_ =
      net_.Add(Ops(), test_ops::Softmax{.axis = 1}, {r_}, "softmax").value();
  std::string text_;
  uint64_t version_ = 0;
};

TEST_F(NetworkEditErrorTest, InputWithoutAName) {
  ExpectRefused(net_.AddInput("", TensorType()), "input: has no name");
}

TEST_F(NetworkEditErrorTest, InputWithATakenName) {
  ExpectRefused(net_.AddInput("relu", TensorType()),
                "input relu: the name is taken");
}

TEST_F(NetworkEditErrorTest, InputOfATypeThatCannotBe) {
  ExpectRefused(net_.AddInput("z", TensorType(kFloat32, {2, -1})),
                "input z: type float32[2, -1] has a negative side");
  ExpectRefused(net_.AddInput("z", TensorType({kDLFloat, 7, 1})),
                "input z: type float7");
}

TEST_F(NetworkEditErrorTest, ConstantWithoutData) {
  ExpectRefused(net_.AddConstant("c", NDArray()), "constant c: has no data");
}

TEST_F(NetworkEditErrorTest, ConstantWithATakenName) {
  ExpectRefused(net_.AddConstant("x", Floats({1})),
                "constant x: the name is taken");
}

// OV-07.
TEST_F(NetworkEditErrorTest, OperationWithoutAnOperator) {
  ExpectRefused(net_.AddOperation({.attrs = {}, .inputs = {x_}, .name = "new"}),
                "operation new: has no operator");
}

TEST_F(NetworkEditErrorTest, OperatorThatIsNotInTheSet) {
  struct Unknown : test_ops::Relu {};
  ExpectRefused(net_.Add(Ops(), Unknown{}, {x_}), "has no operator");
}

TEST_F(NetworkEditErrorTest, OperationOfADomainWithoutAnOpset) {
  ExpectRefused(net_.Add(Ops(), test_ops::Moody{}, {x_}, "new"),
                "operation new: the network has no opset of domain "
                "\"com.test\"");
}

TEST_F(NetworkEditErrorTest, OperationWithATakenName) {
  ExpectRefused(AddRelu({.attrs = {}, .inputs = {x_}, .name = "relu"}),
                "operation relu: the name is taken");
}

TEST_F(NetworkEditErrorTest, OutputWithATakenName) {
  ExpectRefused(
      AddRelu({.attrs = {}, .inputs = {x_}, .name = "new", .outputs = {"x"}}),
      "operation new: output 0 (Y): the name x is taken");
  ExpectRefused(net_.AddOperation({.attrs = AttrsOf<test_ops::Split>(),
                                   .inputs = {x_},
                                   .name = "new",
                                   .outputs = {"p", "p"}}),
                "operation new: output 1 (pieces): the name p is taken");
}

TEST_F(NetworkEditErrorTest, InputThatDoesNotExist) {
  ExpectRefused(
      AddRelu({.attrs = {}, .inputs = {kUnknownValue}, .name = "new"}),
      "operation new: input 0 (X): is value %99, which does not "
      "exist, expected a tensor");
}

TEST_F(NetworkEditErrorTest, BarrierAsAnInput) {
  ExpectRefused(AddRelu({.attrs = {},
                         .inputs = {net_.operation(Maker(a_)).barrier},
                         .name = "new"}),
                "operation new: input 0 (X): is the barrier of operation add");
}

TEST_F(NetworkEditErrorTest, TensorAsABarrier) {
  ExpectRefused(
      AddRelu({.attrs = {}, .inputs = {x_}, .name = "new", .after = {a_}}),
      "operation new: barrier 0: is value add, expected a barrier");
}

TEST_F(NetworkEditErrorTest, BarrierTwice) {
  const ValueId barrier = net_.operation(Maker(a_)).barrier;
  ExpectRefused(
      AddRelu({.attrs = {},
               .inputs = {x_},
               .name = "new",
               .after = {barrier, barrier}}),
      "operation new: barrier 1: is the barrier of operation add again");
}

TEST_F(NetworkEditErrorTest, TooFewInputs) {
  ExpectRefused(net_.Add(Ops(), test_ops::Add{}, {x_}, "new"),
                "operation new: has 1 input, expected 2 inputs (of Add)");
}

TEST_F(NetworkEditErrorTest, TooManyOutputs) {
  ExpectRefused(
      AddRelu(
          {.attrs = {}, .inputs = {x_}, .name = "new", .outputs = {"p", "q"}}),
      "operation new: has 2 outputs, expected 1 output (of Relu)");
}

// OV-07.
TEST_F(NetworkEditErrorTest, RequiredInputLeftOut) {
  ExpectRefused(net_.Add(Ops(), test_ops::Add{}, {x_, kNoValue}, "new"),
                "operation new: input 1 (B): is not given");
}

TEST_F(NetworkEditErrorTest, RequiredOutputLeftOut) {
  ExpectRefused(
      AddRelu({.attrs = {}, .inputs = {x_}, .name = "new", .outputs = {""}}),
      "operation new: output 0 (Y): is not wanted");
}

// OV-13, OV-39.
TEST_F(NetworkEditErrorTest, AttributeThatDoesNotFitTheInputs) {
  ExpectRefused(net_.Add(Ops(), test_ops::Softmax{.axis = 2}, {x_}, "new"),
                "operation new: attribute axis: is 2, expected -2 to 1");
}

TEST_F(NetworkEditErrorTest, InferenceThatFails) {
  const ValueId z = net_.AddInput("z", TensorType(kFloat32, {4})).value();
  text_ = TextOf(net_);
  version_ = net_.version();
  ExpectRefused(net_.Add(Ops(), test_ops::Add{}, {x_, z}, "new"),
                "operation new: [n, 3] and [4]: sides of 3 and 4");
}

TEST_F(NetworkEditErrorTest, OperatorThatInfersNonsense) {
  ASSERT_THAT(net_.SetOpset("com.test", 1), IsOk());
  text_ = TextOf(net_);
  version_ = net_.version();
  const auto say = [&](OutputInfos says) {
    test_ops::Moody::says = std::move(says);
    return net_.Add(Ops(), test_ops::Moody{}, {x_}, "new");
  };
  ExpectRefused(say({}), StatusCode::kInternal,
                "operation new: Infer of Moody speaks of 0 outputs");
  ExpectRefused(say({TensorType(kFloat32, {-3})}), StatusCode::kInternal,
                "operation new: output 0 (Y): Infer of Moody says type "
                "float32[-3] has a negative side");
}

TEST_F(NetworkEditErrorTest, ElementsThatDoNotFitTheirTypeAreNotKnown) {
  ASSERT_THAT(net_.SetOpset("com.test", 1), IsOk());
  for (const TensorType& type :
       {TensorType(kInt64, {2}), TensorType(kInt64, {3, 1})}) {
    OutputInfo says(type);
    says.elements = {1, 2, 3};
    test_ops::Moody::says = {says};
    const auto added = net_.Add(Ops(), test_ops::Moody{}, {x_}, "new");
    ASSERT_THAT(added, IsOk());
    EXPECT_EQ(net_.value(*added).type, type);
    EXPECT_FALSE(net_.value(*added).elements.has_value());
    net_.RemoveUnused();
  }
}

// OV-25.
TEST_F(NetworkEditErrorTest, PlaceInTheOrderBeforeWhatIsRead) {
  ExpectRefused(
      AddRelu(
          {.attrs = {}, .inputs = {r_}, .name = "new", .before = Maker(a_)}),
      "operation new: cannot run before operation add, since it "
      "reads value relu of operation relu");
  ExpectRefused(AddRelu({.attrs = {},
                         .inputs = {x_},
                         .name = "new",
                         .before = kUnknownOperation}),
                "has no operation #99, which does not exist");
}

TEST_F(NetworkEditErrorTest, BodyThatIsMissing) {
  ExpectRefused(net_.Add(Ops(), test_ops::If{}, {x_}, "new"),
                "operation new: attribute then_branch has no graph");
}

TEST_F(NetworkEditErrorTest, MoreCapturesThanInputs) {
  const SharedNetwork body = ShareNetwork(Network("body"));
  ExpectRefused(
      net_.Add(Ops(),
               test_ops::If{.then_branch = {body, 2}, .else_branch = {body, 0}},
               {x_}, "new"),
      "operation new: its bodies capture 2 values, expected at most "
      "its 1 inputs");
}

TEST_F(NetworkEditErrorTest, OutputsThatAreNotTensors) {
  ExpectRefused(net_.SetOutputs({s_, kUnknownValue}),
                "network net: output 1: is value %99");
  ExpectRefused(net_.SetOutputs({net_.operation(Maker(a_)).barrier}),
                "network net: output 0: is the barrier of operation add");
}

TEST_F(NetworkEditErrorTest, NamesThatCannotBeGiven) {
  ExpectRefused(net_.Rename(x_, "y"), "value y: the name is taken");
  ExpectRefused(net_.Rename(x_, ""), "value: has no name");
  ExpectRefused(net_.Rename(kUnknownValue, "z"), "is value %99");
  ExpectRefused(net_.Rename(net_.operation(Maker(a_)).barrier, "z"),
                "is the barrier of operation add");
  ExpectRefused(net_.Rename(Maker(a_), "relu"),
                "operation relu: the name is taken");
  ExpectRefused(net_.Rename(kUnknownOperation, "z"), "operation #99");
}

TEST_F(NetworkEditErrorTest, OpsetBelowOne) {
  ExpectRefused(net_.SetOpset("", 0), "opset 0 of domain \"\"");
}

TEST_F(NetworkEditErrorTest, SlotThatTheOperatorDoesNotHave) {
  ExpectRefused(net_.ReplaceInput(Maker(r_), 1, x_),
                "operation relu: has 2 inputs, expected 1 input");
  ExpectRefused(net_.ReplaceInput(Maker(r_), 7, x_),
                "operation relu: input 7: the operation has 1 inputs");
  ExpectRefused(net_.ReplaceInput(Maker(r_), kBarrierSlot, x_), "expected one");
  ExpectRefused(net_.ReplaceInput(kUnknownOperation, 0, x_), "operation #99");
}

// OV-04, OV-18, OV-19.
TEST_F(NetworkEditErrorTest, CycleIsPrintedAsAPath) {
  ExpectRefused(net_.ReplaceInput(Maker(a_), 0, s_),
                "operation add: would depend on itself: add -> relu -> softmax "
                "-> add");
  ExpectRefused(net_.ReplaceInput(Maker(a_), 0, a_),
                "operation add: would depend on itself: add -> add");
}

TEST_F(NetworkEditErrorTest, CycleThroughABarrier) {
  ExpectRefused(net_.RunAfter(Maker(s_), Maker(a_)),
                "would depend on itself: add -> relu -> softmax -> add");
  ExpectRefused(net_.RunAfter(Maker(a_), Maker(a_)), "add -> add");
  ExpectRefused(net_.RunAfter(Maker(a_), kUnknownOperation), "operation #99");
}

// OV-29
TEST_F(NetworkEditErrorTest, CycleThroughBarriersAlone) {
  const ValueId other =
      net_.Add(Ops(), test_ops::Relu{}, {x_}, "other").value();
  ASSERT_THAT(net_.RunAfter(Maker(a_), Maker(other)), IsOk());
  text_ = TextOf(net_);
  version_ = net_.version();
  ExpectRefused(net_.RunAfter(Maker(other), Maker(a_)),
                "would depend on itself: add -> other -> add");
}

// OV-13, OV-18, OV-19: checked where the edit has its effect, too.
TEST_F(NetworkEditErrorTest, InputThatBreaksARestrictionFurtherOn) {
  ExpectRefused(net_.SetInputType(x_, TensorType(kFloat32, {3})),
                "operation softmax: attribute axis: is 1, expected -1 to 0");
  ExpectRefused(net_.ReplaceInput(Maker(r_), 0, i_),
                "operation relu: input 0 (X): is int64, expected a float");
}

TEST_F(NetworkEditErrorTest, TypeOfWhatIsNotAnInput) {
  ExpectRefused(net_.SetInputType(a_, TensorType()),
                "value add: is not an input of the network");
  ExpectRefused(net_.SetInputType(x_, TensorType(kFloat32, {-2})),
                "value x: type float32[-2]");
}

TEST_F(NetworkEditErrorTest, ReplacementsThatDoNotPair) {
  ExpectRefused(net_.ReplaceUses({a_, r_}, {x_}),
                "2 values are to be replaced by 1");
  ExpectRefused(net_.ReplaceUses({a_, a_}, {x_, y_}),
                "value add: is to be replaced twice");
  ExpectRefused(net_.ReplaceUses({a_}, {kUnknownValue}),
                "replacement 0: is value %99");
  ExpectRefused(net_.ReplaceUses({a_}, {net_.operation(Maker(a_)).barrier}),
                "replacement 0: is the barrier of operation add");
  ExpectRefused(net_.ReplaceUses({net_.operation(Maker(a_)).barrier}, {a_}),
                "replacement 0: is value add, expected a barrier");
}

TEST_F(NetworkEditErrorTest, ReplacementThatAUserRefuses) {
  ExpectRefused(net_.ReplaceUses({a_}, {i_}),
                "operation relu: input 0 (X): is int64");
}

TEST_F(NetworkEditErrorTest, DimensionThatNoInputHas) {
  ExpectRefused(net_.BindDim("m", 3), StatusCode::kNotFound,
                "dimension m: no input of the network has it; did you mean n?");
  ExpectRefused(net_.BindDim("n", -1), "dimension n: is to be -1");
}

TEST_F(NetworkEditErrorTest, DimensionThatDoesNotFit) {
  const ValueId z =
      net_.AddInput("z", TensorType(kFloat32, {4, Dim::Named("m")})).value();
  ASSERT_THAT(net_.Add(Ops(), test_ops::Add{}, {x_, z}, "sum"), IsOk());
  text_ = TextOf(net_);
  version_ = net_.version();
  ExpectRefused(net_.BindDim("m", 2),
                "dimension m of size 2: operation sum: [n, 3] and [4, 2]");
}

TEST_F(NetworkEditErrorTest, DataThatIsNotOfTheInputsType) {
  ExpectRefused(net_.Freeze(x_, Floats({1})),
                "value x: float32[1] does not agree with float32[n, 3]");
  ExpectRefused(net_.Freeze(x_, NDArray()), "value x: no data");
  ExpectRefused(net_.Freeze(a_, Floats({1})), "value add: is not an input");
  ExpectRefused(net_.Freeze(kUnknownValue, Floats({1})), "value %99");
}

TEST_F(NetworkEditErrorTest, DataThatMakesOneNameTwoSizes) {
  const Dim n = Dim::Named("n");
  const ValueId z = net_.AddInput("z", TensorType(kFloat32, {n, n})).value();
  text_ = TextOf(net_);
  version_ = net_.version();
  ExpectRefused(net_.Freeze(z, MakeTensor<float>({1, 2}, {1, 2})),
                "value z: float32[1, 2] makes n both 1 and 2");
}

TEST_F(NetworkEditErrorTest, RemovalOfWhatIsRead) {
  ExpectRefused(net_.Remove(Maker(a_)), StatusCode::kFailedPrecondition,
                "operation add: value add is read by operation relu");
  ExpectRefused(net_.Remove(Maker(s_)), StatusCode::kFailedPrecondition,
                "operation softmax: value softmax is read by the network as an "
                "output");
  ExpectRefused(net_.Remove(kUnknownOperation), "operation #99");
  ExpectRefused(net_.RemoveInput(x_), StatusCode::kFailedPrecondition,
                "value x: value x is read by operation add");
  ExpectRefused(net_.RemoveInput(a_), "value add: is not an input");
}

TEST_F(NetworkEditErrorTest, RemovalOfWhatIsWaitedFor) {
  const OperationId side =
      AddRelu({.attrs = {}, .inputs = {x_}, .name = "side"}).value();
  ASSERT_THAT(net_.RunAfter(side, Maker(s_)), IsOk());
  text_ = TextOf(net_);
  version_ = net_.version();
  ExpectRefused(net_.Remove(side), StatusCode::kFailedPrecondition,
                "operation side: the barrier of operation side is read by "
                "operation softmax");
}

TEST_F(NetworkEditErrorTest, NameThatIsNotFound) {
  ExpectRefused(net_.FindValue("softmix"), StatusCode::kNotFound,
                "value softmix: the network has none of that name; did you "
                "mean softmax?");
  ExpectRefused(net_.FindOperation("rel"), StatusCode::kNotFound,
                "operation rel: the network has none");
}

TEST_F(NetworkEditErrorTest, DataWithFaultsMakesNoNetwork) {
  NetworkData data = net_.data();
  data.order.pop_back();
  data.values[0]->name = "";
  ExpectRefused(Network::FromData(data), StatusCode::kDataLoss,
                "operation softmax: is not in the order, expected all "
                "operations there; and 1 more fault");
}

}  // namespace
}  // namespace nodewise
