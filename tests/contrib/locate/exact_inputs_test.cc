#include "nodewise/locate/exact_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contrib/locate/exact_tensors.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/planter/planter.h"
#include "nodewise/runner/runner_list.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

NDArray Halves(std::vector<int64_t> shape) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<float>()[i] = 0.5F + static_cast<float>(i % 5);
  }
  return tensor;
}

// x -> convolved (Conv, Relu in one node) -> bent (Tanh).
Lowered ConvolvedNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 3, 6, 6});
  const ValueId w = b.Const("w", Halves({4, 3, 3, 3}));
  ValueId y = b.Op("Conv", {x, w}, {}, {"c"}, "product")[0];
  y = b.Op("Relu", {y}, {}, {"r"}, "convolved")[0];
  b.Out({b.Op("Tanh", {y}, {}, {"t"}, "bent")[0], y});
  return Lower(b.net, "net").value();
}

ExactCheck CheckNode(const std::string& name, const Graph& graph,
                     const Ref<Library>& library,
                     const std::vector<NamedTensor>& params) {
  const auto target =
      GraphTarget::FromArtefact("net", {graph, library, Params{params}}, {kCpu})
          .value();
  const StoragePlan plan = PlanStorage(target->graph(), kDLCPU).value();
  const GraphIndex index(target->graph(), plan);
  const auto runner = MakerOf("debug", {"net", target}).value()().value();
  return CheckExactly(index, AllOperators(), index.FindNode(name).value(),
                      *runner, {{"x", Halves({1, 3, 6, 6})}});
}

TEST(ExactInputsTest, ASoundKernelIsRightBitForBitWithWeightsOfOurs) {
  const Lowered net = ConvolvedNet();
  const ExactCheck check = CheckNode(
      "convolved", net.graph, BuiltInFunctions(AllOperators()), net.params);
  EXPECT_EQ(check.why_not, "");
  EXPECT_EQ(check.verdict(), Verdict::kPass);
  EXPECT_TRUE(check.has_other_weights);
  EXPECT_FALSE(check.is_inexact);
}

TEST(ExactInputsTest, AFaultInTheKernelIsWrong) {
  const Lowered net = ConvolvedNet();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto planted =
        PlantScale(net.graph, BuiltInFunctions(AllOperators()), seed);
    ASSERT_THAT(planted, IsOk());
    if (planted->fault.name != "convolved") continue;
    const ExactCheck check =
        CheckNode("convolved", planted->graph, planted->library, net.params);
    EXPECT_EQ(check.verdict(), Verdict::kError) << check.why_not;
    return;
  }
  ADD_FAILURE() << "no seed plants into the node";
}

TEST(ExactInputsTest, WhatRoundsWhateverItReadsIsNotChecked) {
  const Lowered net = ConvolvedNet();
  const ExactCheck check = CheckNode(
      "bent", net.graph, BuiltInFunctions(AllOperators()), net.params);
  EXPECT_EQ(check.verdict(), std::nullopt);
  EXPECT_THAT(check.why_not, HasSubstr("bent (Tanh) rounds whatever"));
}

Region RegionOfNetwork(const NetBuilder& b) {
  return {b.net, {}, std::vector<bool>(b.net.inputs().size()), {}};
}

// Long sums of a type with 8 bits: most numbers must be 0.
TEST(ExactInputsTest, SumsStayBelowWhatTheirTypeCounts) {
  NetBuilder b;
  const ValueId x = b.In("x", {3, 4000}, kBfloat16);
  const ValueId w = b.In("w", {4000, 5}, kBfloat16);
  b.Out(b.Op("MatMul", {x, w}));
  const auto exact = DrawExactTensors(RegionOfNetwork(b), 1);
  ASSERT_THAT(exact, IsOk());
  const std::vector<double> a = ToDoubles(exact->inputs[0]);
  const std::vector<double> c = ToDoubles(exact->inputs[1]);
  double largest = 0;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 5; ++column) {
      double sum = 0;
      for (size_t k = 0; k < 4000; ++k) {
        sum += std::fabs(a[row * 4000 + k] * c[k * 5 + column]);
      }
      largest = std::max(largest, sum);
    }
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 256);
}

TEST(ExactInputsTest, NumbersThatAreNotWholeAreNotExact) {
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  b.Out(b.Op("Mul", {x, b.Const("half", Floats({0.5F}))}));
  EXPECT_THAT(DrawExactTensors(RegionOfNetwork(b), 1),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("numbers that are not whole")));
}

TEST(ExactInputsTest, ADifferenceCountsAsBothSides) {
  NetBuilder b;
  const ValueId x = b.In("x", {64}, kBfloat16);
  const ValueId y = b.In("y", {64}, kBfloat16);
  b.Out(b.Op("Sub", {x, y}));
  const auto exact = DrawExactTensors(RegionOfNetwork(b), 1);
  ASSERT_THAT(exact, IsOk());
  const std::vector<double> a = ToDoubles(exact->inputs[0]);
  const std::vector<double> c = ToDoubles(exact->inputs[1]);
  const std::vector<double> d = ToDoubles(exact->expected[0]);
  for (size_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], a[i] - c[i]);
}

}  // namespace
}  // namespace nodewise
