// What is said before anything is lowered is what is bound then.

#include <gtest/gtest.h>

#include <map>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/foreign/opaque_runner.h"
#include "nodewise/lower/lowering_plan.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/opaque.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Some of it oneDNN computes, with others fused behind it, some of a node it
// does not, and a whole node it does not.
Network PartlyOneDnn() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 6, 6});
  const ValueId w = b.Const(
      "w", MakeTensor<float>({4, 4, 3, 3}, std::vector<float>(144, 0.1F)));
  const ValueId c = b.Op("Conv", {x, w}, {}, {"c"}, "conv")[0];
  const ValueId e = b.Op("Erf", {c}, {}, {"e"}, "erf")[0];
  const ValueId r = b.Op("Relu", {e}, {}, {"r"}, "relu")[0];
  const ValueId s =
      b.Op("CumSum", {r, b.Const("axis", MakeTensor<int64_t>({}, {1}))}, {},
           {"s"}, "sum")[0];
  b.Out({s, b.Op("Round", {x}, {}, {"o"}, "round")[0]});
  return std::move(b.net);
}

std::vector<std::string> ChoiceLines(const KernelChoice& choice) {
  std::vector<std::string> lines = {choice.node + ": " + choice.kernel};
  for (const std::string& refusal : choice.refusals) lines.push_back(refusal);
  for (const OperationChoice& each : choice.operations) {
    lines.push_back(each.operation + ": " + each.kernel + ", " + each.why_not +
                    ", " + each.remark);
  }
  return lines;
}

// By node, in the order of their names.
std::map<std::string, std::vector<std::string>> ChoicesByNode(
    const std::vector<KernelChoice>& choices) {
  std::map<std::string, std::vector<std::string>> nodes;
  for (const KernelChoice& each : choices) nodes[each.node] = ChoiceLines(each);
  return nodes;
}

// OV-15.
TEST(KernelTableTest, SaysBeforeLoweringWhatIsBoundThen) {
  const Network network = PartlyOneDnn();
  LowerOptions options = LoweringFor(AllOperators());
  options.makers = KernelMakersOf();
  const auto plan = LoweringPlan::Make(network, options);
  ASSERT_THAT(plan, IsOk());
  std::vector<KernelChoice> planned;
  for (const PlannedKernel& row : (*plan->kernels())->rows()) {
    planned.push_back(row.choice);
  }
  const auto lowered = Lower(network, "net", *plan);
  ASSERT_THAT(lowered, IsOk());
  for (const auto& table :
       {lowered->kernels, std::shared_ptr<const KernelTable>()}) {
    const auto library =
        BuiltInFunctions(AllOperators(), Backend::kFastest, table);
    ASSERT_THAT(ExecutorOf(*lowered, library), IsOk());
    EXPECT_EQ(ChoicesByNode(library->choices()), ChoicesByNode(planned));
  }
}

TEST(KernelTableTest, TellsWhatOneDnnDoesNotDoAndWhy) {
  if (OneDnnOperators().empty()) GTEST_SKIP() << "no oneDNN in this build";
  LowerOptions options;
  options.makers = KernelMakersOf();
  const Network network = PartlyOneDnn();
  const auto plan = LoweringPlan::Make(network, options);
  ASSERT_THAT(plan, IsOk());
  std::map<std::string, std::string> why;
  for (const PlannedKernel& row : (*plan->kernels())->rows()) {
    for (const OperationChoice& each : row.choice.operations) {
      why[each.operation] =
          each.kernel + (each.why_not.empty() ? "" : ": " + each.why_not) +
          (row.choice.refusals.empty() ? "" : ": " + row.choice.refusals[0]);
    }
  }
  EXPECT_EQ(why["conv"], "oneDNN");
  EXPECT_EQ(why["relu"], "oneDNN");
  EXPECT_EQ(why["erf"], "reference: Erf: oneDNN has no such operator");
  EXPECT_EQ(why["sum"],
            "reference: oneDNN: CumSum: oneDNN has no such operator");
}

TEST(KernelTableTest, SaysOfCWhatEmittingItRefuses) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 2});
  const ValueId f = b.In("f", {8});
  b.Out({b.Op("Relu", {f}, {}, {"y"}, "relu")[0],
         b.Op("Det", {x}, {}, {"z"}, "det")[0]});
  LowerOptions options;
  options.makers = {CKernels()};
  const auto plan = LoweringPlan::Make(b.net, options);
  ASSERT_THAT(plan, IsOk());
  std::map<std::string, std::string> refused;
  for (const PlannedKernel& row : (*plan->kernels())->rows()) {
    for (const OperationChoice& each : row.choice.operations) {
      if (each.kernel.empty()) refused[each.operation] = each.why_not;
    }
  }
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused["det"], HasSubstr("there is no C for this operator"));
  const auto emitted = EmitC(Lower(b.net, "net", *plan)->graph, AllOperators());
  EXPECT_THAT(emitted, FailsWith(absl::StatusCode::kUnimplemented,
                                 HasSubstr("there is no C for 1 operation: det "
                                           "(Det): " +
                                           refused["det"])));
}

class OpaqueOrderTest : public testing::Test {
 protected:
  OpaqueOrderTest() {
    EXPECT_THAT(b_.net.SetOpset(kOpaqueDomain, 1), IsOk());
    const ValueId x = b_.In("x", {2});
    first_ = Opaque("first", x, "a");
    second_ = Opaque("second", x, "b");
    b_.Out({b_.net.operation(first_).outputs[0],
            b_.net.operation(second_).outputs[0]});
  }

  OperationId Opaque(const std::string& name, ValueId x,
                     const std::string& output) {
    ops::Opaque op;
    op.op_type = "Draw";
    op.domain = "vendor";
    op.node = "node";
    op.types = {TensorType(kFloat32, {2})};
    NewOperation operation;
    operation.attrs =
        OpAttrs::From(AllOperators().FindType(&kTypeTag<ops::Opaque>), op);
    operation.inputs = {x};
    operation.outputs = {output};
    operation.name = name;
    return b_.net.AddOperation(std::move(operation)).value();
  }

  // Makes `first` read what is only made behind `second`.
  void MakeFirstReadALaterValue() {
    const ValueId late =
        b_.Op("Neg", {b_.net.FindValue("x").value()}, {}, {"late"}, "neg")[0];
    ASSERT_THAT(b_.net.ReplaceInput(first_, 0, late), IsOk());
  }
  std::vector<OperationId> Order() const {
    return {b_.net.order().begin(), b_.net.order().end()};
  }
  size_t PlaceOf(OperationId id) const {
    const auto order = Order();
    return static_cast<size_t>(std::find(order.begin(), order.end(), id) -
                               order.begin());
  }

  NetBuilder b_;
  OperationId first_;
  OperationId second_;
};

TEST_F(OpaqueOrderTest, WithoutBarriersAnEditMayTurnOpaqueOperationsRound) {
  MakeFirstReadALaterValue();
  EXPECT_GT(PlaceOf(first_), PlaceOf(second_));
}

// OV-29.
TEST_F(OpaqueOrderTest, OpaqueOperationsKeepTheirOrderThroughEdits) {
  ASSERT_THAT(OrderOpaqueOperations(&b_.net), IsOk());
  MakeFirstReadALaterValue();
  EXPECT_LT(PlaceOf(first_), PlaceOf(second_));
}

TEST_F(OpaqueOrderTest, NodesOfOpaqueOperationsWaitForEachOther) {
  ASSERT_THAT(OrderOpaqueOperations(&b_.net), IsOk());
  const auto lowered = Lower(b_.net, "net");
  ASSERT_THAT(lowered, IsOk());
  const auto& nodes = lowered->graph.nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1].name, "first");
  EXPECT_THAT(nodes[1].control_deps, IsEmpty());
  EXPECT_THAT(nodes[2].control_deps, ElementsAre(1u));
}

}  // namespace
}  // namespace nodewise
