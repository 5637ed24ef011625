// Calls that cannot be right: readers of what does not exist end the process
// with a message, in every build, and their twins return a status. What a
// network has taken over can no longer be changed from outside.

#include <gtest/gtest.h>

#include <algorithm>

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

constexpr ValueId kNothing{99};
constexpr OperationId kUnknown{99};

// x -> relu r, the output; another relu has been removed.
class NetworkChecksTest : public testing::Test {
 protected:
  NetworkChecksTest() {
    EXPECT_THAT(net_.SetOutputs({r_}), IsOk());
    const ValueId value =
        net_.Add(Ops(), test_ops::Relu{}, {x_}, "gone").value();
    removed_ = net_.value(value).producer;
    EXPECT_THAT(net_.Remove(removed_), IsOk());
  }

  Network net_{"net"};
  ValueId x_ = net_.AddInput("x", TensorType(kFloat32, {2})).value();
  ValueId r_ = net_.Add(Ops(), test_ops::Relu{}, {x_}, "r").value();
  OperationId removed_ = kNoOperation;
};

// OV-17, OV-20, OV-21: the message names the item and the place of the call.
TEST_F(NetworkChecksTest, ReadersOfWhatDoesNotExistEndTheProcess) {
  EXPECT_DEATH(net_.value(kNothing),
               "network_checks_test.*check failed: network net: value %99, "
               "which does not exist, expected one of its values");
  EXPECT_DEATH(net_.operation(removed_),
               "network_checks_test.*operation #1, which does not exist");
  EXPECT_DEATH(net_.InputsOf(kUnknown), "network_checks_test.*operation #99");
  EXPECT_DEATH(net_.value(kNoValue), "no value, expected one of its values");
}

// OV-17, OV-20.
TEST_F(NetworkChecksTest, TwinsOfReadersReturnAStatus) {
  EXPECT_EQ((*net_.FindValue(r_))->name, "r");
  EXPECT_EQ((*net_.FindOperation(net_.value(r_).producer))->name, "r");
  EXPECT_EQ(net_.FindInputsOf(net_.value(r_).producer)->size(), 1u);
  EXPECT_THAT(net_.FindValue(kNothing),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("network net: value %99, which does not")));
  EXPECT_THAT(net_.FindOperation(removed_),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("network net: operation #1, which does")));
  EXPECT_THAT(net_.FindInputsOf(kUnknown),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("#99")));
}

TEST_F(NetworkChecksTest, AttributesOfNoOperatorEndTheProcess) {
  EXPECT_EQ(OpAttrs().FindDef(), nullptr);
  EXPECT_DEATH(OpAttrs().def(), "check failed: attributes of no operator");
  EXPECT_DEATH(NamedAttrsOf(OpAttrs()), "attributes of no operator");
  EXPECT_THAT(
      net_.AddOperation({.attrs = OpAttrs(), .inputs = {x_}}),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("has no operator")));
  EXPECT_FALSE(OpAttrs::From(nullptr, test_ops::Relu{}).defined());
  const OperatorDef* const add = Ops().FindType(&kTypeTag<test_ops::Add>);
  EXPECT_FALSE(OpAttrs::From(add, test_ops::Relu{}).defined());
}

// OV-17: what is exported can be imported again.
TEST_F(NetworkChecksTest, OpsetThatNoImporterReadsIsRefused) {
  EXPECT_THAT(
      net_.SetOpset("", 99),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("opset 99 of domain \"\": expected 1 to 28")));
  // Its row is that of opset 14.
  EXPECT_THAT(net_.SetOpset("", 13),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("opset 13 of domain \"\": operation r: Relu "
                                  "as it is here holds from opset 14 on")));
  EXPECT_THAT(net_.SetOpset("", 14), IsOk());
  EXPECT_THAT(net_.SetOpset("com.test", 99), IsOk());
}

TEST_F(NetworkChecksTest, OperationOfANewerOpsetIsRefused) {
  Network old("old");
  ASSERT_THAT(old.SetOpset("", 6), IsOk());
  const ValueId x = old.AddInput("x", TensorType(kFloat32, {2})).value();
  EXPECT_THAT(
      old.Add(Ops(), test_ops::Add{}, {x, x}, "sum"),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("operation sum: Add as it is here holds from "
                          "opset 7 on, the opset of domain \"\" is 6")));
}

TEST_F(NetworkChecksTest, VerifierFindsOpsetsThatDoNotFit) {
  NetworkData data = net_.data();
  data.opsets = {{"", 13}};
  EXPECT_THAT(ToStatus(Verify(data)),
              FailsWith(StatusCode::kDataLoss, HasSubstr("holds from opset")));
  data.opsets = {{"", 99}};
  EXPECT_THAT(ToStatus(Verify(data)),
              FailsWith(StatusCode::kDataLoss, HasSubstr("1 to 28")));
}

// OV-12: types and elements are those of the data, even if its maker writes to
// the memory that it has kept.
TEST_F(NetworkChecksTest, ConstantIsCopiedIfItsMakerKeepsIt) {
  const NDArray kept = MakeTensor<int64_t>({2}, {2, 3});
  const ValueId c = net_.AddConstant("c", kept).value();
  std::fill_n(kept.As<int64_t>(), 2, 7);
  EXPECT_EQ(net_.value(c).data.As<int64_t>()[0], 2);
  EXPECT_EQ(*net_.value(c).elements, (Shape{2, 3}));
  EXPECT_THAT(ToStatus(Verify(net_.data())), IsOk());
}

TEST_F(NetworkChecksTest, ConstantIsNotCopiedIfItHasNoOtherHolder) {
  NDArray given = MakeTensor<int64_t>({2}, {2, 3});
  const void* const memory = given.data();
  const ValueId c = net_.AddConstant("c", std::move(given)).value();
  EXPECT_EQ(net_.value(c).data.data(), memory);
  // It is read-only by now, so another network shares it.
  Network other("other");
  const ValueId d = other.AddConstant("d", net_.value(c).data).value();
  EXPECT_EQ(other.value(d).data.data(), memory);
}

TEST_F(NetworkChecksTest, InputIsFrozenToACopyIfItsMakerKeepsIt) {
  const NDArray kept = Floats({1, 2});
  ASSERT_THAT(net_.Freeze(x_, kept), IsOk());
  kept.As<float>()[0] = 7;
  EXPECT_EQ(net_.value(x_).data.As<float>()[0], 1);
}

TEST_F(NetworkChecksTest, ConstantsOfDataAreCopiedIfTheirMakerKeepsThem) {
  NetworkData data = net_.data();
  const NDArray kept = Floats({1, 2});
  NetworkValue value;
  value.id = ValueId{static_cast<uint32_t>(data.values.size())};
  value.kind = NetworkValue::Kind::kConstant;
  value.name = "c";
  value.type = TensorType::From(*kept);
  value.data = kept;
  data.values.emplace_back(value);
  const auto network = Network::FromData(data);
  ASSERT_THAT(network, IsOk());
  kept.As<float>()[0] = 7;
  EXPECT_EQ(network->value(value.id).data.As<float>()[0], 1);
}

// OV-08: what its maker keeps is another object.
TEST_F(NetworkChecksTest, AttributesCannotBeChangedAfterwards) {
  test_ops::Softmax kept{.axis = 0};
  const ValueId s = net_.Add(Ops(), kept, {r_}, "s").value();
  kept.axis = 5;
  const OpAttrs& attrs = net_.operation(net_.value(s).producer).attrs;
  EXPECT_EQ(attrs.As<test_ops::Softmax>()->axis, 0);
  EXPECT_EQ(attrs.As<test_ops::Relu>(), nullptr);
}

TEST_F(NetworkChecksTest, NetworkThatWasMovedAwayIsEmptyAndNew) {
  const SideTable<int> table(net_, "plan", 7);
  const uint64_t version = net_.version();
  const Network moved = std::move(net_);
  EXPECT_EQ(moved.version(), version);
  // NOLINTBEGIN(bugprone-use-after-move): what the network promises.
  EXPECT_TRUE(net_.order().empty());
  EXPECT_FALSE(net_.Has(x_));
  EXPECT_EQ(net_.opset(), Network().opset());
  // OV-11.
  EXPECT_THAT(table.Get(), FailsWith(StatusCode::kFailedPrecondition,
                                     HasSubstr("run the pass again")));
  EXPECT_THAT(net_.AddInput("x", TensorType(kFloat32)), IsOk());
  // NOLINTEND(bugprone-use-after-move)
}

// A network with an If whose branch reads what it captures, a float32 (2).
class CapturesTest : public testing::Test {
 protected:
  CapturesTest() {
    Network body("body");
    const ValueId p = body.AddInput("p", TensorType(kFloat32, {2})).value();
    const ValueId q = body.Add(Ops(), test_ops::Relu{}, {p}).value();
    EXPECT_THAT(body.SetOutputs({q}), IsOk());
    body_ = ShareNetwork(std::move(body));
  }
  absl::StatusOr<ValueId> AddIf(ValueId first, ValueId second) {
    return net_.Add(Ops(), test_ops::If{{body_, 1}, {body_, 1}},
                    {condition_, first, second}, "if");
  }

  Network net_{"net"};
  SharedNetwork body_;
  ValueId condition_ = net_.AddInput("c", TensorType(kBool, {})).value();
  ValueId x_ = net_.AddInput("x", TensorType(kFloat32, {2})).value();
  ValueId other_ = net_.AddInput("o", TensorType(kInt64, {7})).value();
};

TEST_F(CapturesTest, TypeThatTheBodyDoesNotTakeIsRefused) {
  EXPECT_THAT(AddIf(x_, other_),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("is int64[7], expected float32[2], as "
                                  "value p of else_branch is")));
  const OperationId made = net_.value(AddIf(x_, x_).value()).producer;
  EXPECT_FALSE(net_.ReplaceInput(made, 2, other_).ok());
  EXPECT_FALSE(net_.SetInputType(x_, TensorType(kFloat32, {3})).ok());
  EXPECT_THAT(net_.SetInputType(x_, TensorType(kFloat32, {Dim()})), IsOk());
  EXPECT_THAT(ToStatus(Verify(net_.data())), IsOk());
}

TEST_F(CapturesTest, CaptureThatIsLeftOutIsRefused) {
  EXPECT_THAT(AddIf(kNoValue, x_), FailsWith(StatusCode::kInvalidArgument,
                                             HasSubstr("is not given")));
  const OperationId made = net_.value(AddIf(x_, x_).value()).producer;
  EXPECT_FALSE(net_.ReplaceInput(made, 1, kNoValue).ok());
}

TEST_F(CapturesTest, WhatIsInBodiesHoldsInTheOpsetToo) {
  ASSERT_THAT(AddIf(x_, x_), IsOk());
  Network copy = net_;
  EXPECT_THAT(net_.SetOpset("", 13),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("operation if: in a body: operation")));
  EXPECT_THAT(net_.SetOpset("", 14), IsOk());
  NetworkData data = copy.data();
  data.opsets[0].second = 13;
  EXPECT_THAT(ToStatus(Verify(data)),
              FailsWith(StatusCode::kDataLoss, HasSubstr("in a body")));
}

TEST_F(CapturesTest, BodiesMayNotBeNestedWithoutEnd) {
  SharedNetwork body = body_;
  absl::Status status;
  int depth = 1;
  for (; status.ok() && depth < 100; ++depth) {
    Network outer("outer");
    const ValueId c = outer.AddInput("c", TensorType(kBool, {})).value();
    const ValueId x = outer.AddInput("x", TensorType(kFloat32, {2})).value();
    const uint32_t captures = depth == 1 ? 1 : 2;
    std::vector<ValueId> inputs = {c};
    for (int branch = 0; branch < 2; ++branch) {
      if (captures == 2) inputs.push_back(c);
      inputs.push_back(x);
    }
    const auto y = outer.Add(
        Ops(), test_ops::If{{body, captures}, {body, captures}}, inputs);
    status = y.status();
    if (!y.ok()) break;
    ASSERT_THAT(outer.SetOutputs({*y}), IsOk());
    body = ShareNetwork(std::move(outer));
  }
  EXPECT_EQ(depth, 65);
  EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument,
                                HasSubstr("more than 64 deep")));
}

TEST_F(NetworkChecksTest, OtherNameOfTheStandardDomainIsRefused) {
  EXPECT_THAT(net_.SetOpset("ai.onnx", 13),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("expected it as domain")));
  NetworkData data = net_.data();
  data.opsets.emplace_back("ai.onnx", 13);
  EXPECT_FALSE(Network::FromData(std::move(data)).ok());
}

}  // namespace
}  // namespace nodewise
