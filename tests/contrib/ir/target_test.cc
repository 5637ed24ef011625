#include <gtest/gtest.h>

#include "nodewise/ir/network.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::Ops;
using testing::ElementsAre;
using testing::HasSubstr;

// Runs everything but a Relu of more than 4 elements, and slowly of 4.
Support AskSmall(const OpAttrs& attrs, const Inputs& inputs,
                 absl::Span<const OutputInfo>) {
  const auto sizes = inputs.type(0).sizes();
  if (attrs.def().name != "Relu" || !sizes.has_value()) return {};
  const int64_t count = NumElements(*sizes).value();
  if (count > 4) return {false, "it has more than 4 elements", {}};
  if (count == 4) return {true, "", {"it has 4 elements"}};
  return {};
}
constexpr Target kSmall = {{"small", "cpu"}, &AskSmall};

// x (n) -> relu r, the output.
class TargetTest : public testing::Test {
 protected:
  TargetTest() { EXPECT_THAT(net_.SetOutputs({r_}), IsOk()); }

  Network net_{"net"};
  ValueId x_ =
      net_.AddInput("x", TensorType(kFloat32, {Dim::Named("n")})).value();
  ValueId r_ = net_.Add(Ops(), test_ops::Relu{}, {x_}, "r").value();
};

// OV-14, OV-15, OV-39: at every edit, also one far upstream.
TEST_F(TargetTest, EditThatTheTargetCannotRunIsRefused) {
  ASSERT_THAT(net_.SetTarget(&kSmall), IsOk());
  EXPECT_THAT(net_.BindDim("n", 5),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("operation r: target small cannot run Relu: "
                                  "it has more than 4 elements")));
  EXPECT_FALSE(net_.value(x_).type.is_static());
  EXPECT_THAT(net_.BindDim("n", 4), IsOk());
  const ValueId y = net_.AddInput("y", TensorType(kFloat32, {9})).value();
  EXPECT_FALSE(net_.Add(Ops(), test_ops::Relu{}, {y}).ok());
  EXPECT_FALSE(net_.ReplaceInput(net_.value(r_).producer, 0, y).ok());
  ASSERT_THAT(net_.SetTarget(nullptr), IsOk());
  EXPECT_THAT(net_.Add(Ops(), test_ops::Relu{}, {y}), IsOk());
}

TEST_F(TargetTest, TargetThatCannotRunTheNetworkIsRefused) {
  ASSERT_THAT(net_.BindDim("n", 5), IsOk());
  EXPECT_THAT(net_.SetTarget(&kSmall),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("operation r: target small")));
  EXPECT_EQ(net_.target(), nullptr);
}

TEST_F(TargetTest, OperationsInBodiesCountToo) {
  Network body("body");
  const ValueId p = body.AddInput("p", TensorType(kFloat32, {5})).value();
  const ValueId q = body.Add(Ops(), test_ops::Relu{}, {p}, "inner").value();
  ASSERT_THAT(body.SetOutputs({q}), IsOk());
  const SharedNetwork shared = ShareNetwork(std::move(body));
  const ValueId condition = net_.AddInput("c", TensorType(kBool, {})).value();
  const ValueId y = net_.AddInput("y", TensorType(kFloat32, {5})).value();
  ASSERT_THAT(net_.SetTarget(&kSmall), IsOk());
  EXPECT_THAT(
      net_.Add(
          Ops(),
          test_ops::If{.then_branch = {shared, 1}, .else_branch = {shared, 1}},
          {condition, y, y}, "if"),
      FailsWith(StatusCode::kFailedPrecondition,
                HasSubstr("operation if: then_branch: operation inner: target "
                          "small cannot run Relu")));
}

TEST_F(TargetTest, CopyHasTheSameTarget) {
  ASSERT_THAT(net_.SetTarget(&kSmall), IsOk());
  Network copy = net_;
  EXPECT_FALSE(copy.BindDim("n", 5).ok());
  EXPECT_EQ(std::move(copy).target(), &kSmall);
}

// OV-16, OV-33, OV-39: what passes ask is computed when they ask.
TEST_F(TargetTest, PassAsksWhatATargetCanDo) {
  const OperationId relu = net_.value(r_).producer;
  EXPECT_TRUE(net_.SupportBy(kSmall, relu).can);
  ASSERT_THAT(net_.BindDim("n", 4), IsOk());
  EXPECT_THAT(net_.SupportBy(kSmall, relu).penalties,
              ElementsAre("it has 4 elements"));
}

// An operator that speaks for itself.
struct Picky {
  static Support SupportOn(const TargetTraits& target, const Inputs&) {
    if (target.device == "cpu") return {};
    return {false, "it is for CPUs alone", {}};
  }
  static OutputInfos Infer(const Inputs& in) { return {in.type(0)}; }
  static absl::Status Evaluate(EvalArgs&) { return absl::OkStatus(); }
};

// OV-14, OV-39.
TEST_F(TargetTest, OperatorStatesItsOwnRestrictions) {
  static const OperatorDef kRows[] = {
      Row<Picky>({.name = "Picky", .inputs = {"X"}, .outputs = {"Y"}})};
  OpSet ops;
  ops.Add(kRows);
  const ValueId p = net_.Add(ops, Picky{}, {x_}, "p").value();
  const OperationId picky = net_.value(p).producer;
  EXPECT_TRUE(net_.SupportBy({{"host", "cpu"}}, picky).can);
  const Support support = net_.SupportBy({{"card", "cuda"}}, picky);
  EXPECT_FALSE(support.can);
  EXPECT_EQ(support.why_not, "it is for CPUs alone");
}

}  // namespace
}  // namespace nodewise
