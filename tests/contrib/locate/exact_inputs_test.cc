#include "nodewise/locate/exact_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/exact_tensors.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/planter/planter.h"
#include "nodewise/runners/runner_list.h"
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

// Checks a node of float16 that computes x and w, and makes 1 to 2 % too much
// or too little: that is within what so long sums of the type may be off by.
ExactCheck CheckScaled(const std::string& kind, const std::vector<int64_t>& x,
                       const std::vector<int64_t>& w,
                       const std::vector<NamedAttr>& attrs) {
  NetBuilder b;
  std::vector<NamedTensor> tensors;
  std::vector<ValueId> ids;
  const std::pair<std::string, std::vector<int64_t>> inputs[] = {{"x", x},
                                                                 {"w", w}};
  for (const auto& [name, shape] : inputs) {
    ids.push_back(b.In(name, Shape(shape.begin(), shape.end()), kFloat16));
    tensors.push_back({name, NDArray::Empty(shape, kFloat16, kCpu).value()});
    const std::vector<double> ones(
        static_cast<size_t>(CountOf(tensors.back().tensor)), 1);
    StoreDoubles(ones.data(), 0, static_cast<int64_t>(ones.size()),
                 tensors.back().tensor);
  }
  b.Out({b.Op(kind, ids, attrs, {"y"}, "scaled")[0]});
  const Lowered net = Lower(b.net, "net").value();
  const auto planted =
      PlantScale(net.graph, BuiltInFunctions(AllOperators()), 1).value();
  const auto target = GraphTarget::FromArtefact(
                          "net", {planted.graph, planted.library, {}}, {kCpu})
                          .value();
  const StoragePlan plan = PlanStorage(target->graph(), kDLCPU).value();
  const GraphIndex index(target->graph(), plan);
  const auto runner = MakerOf("debug", {"net", target}).value()().value();
  return CheckExactly(index, AllOperators(), index.FindNode("scaled").value(),
                      *runner, tensors);
}

TEST(ExactInputsTest, OnlyASlidingWindowMayBeOffByAsMuchAsTheBoundAllows) {
  const std::vector<int64_t> image{1, 16, 8, 8}, window{4, 16, 3, 3};
  const auto sliding = CheckScaled("Conv", image, window, {});
  EXPECT_EQ(sliding.verdict(), Verdict::kPass) << sliding.why_not;
  EXPECT_TRUE(sliding.is_inexact);
  const ExactCheck others[] = {
      CheckScaled("Conv", image, window,
                  {{"strides", std::vector<int64_t>{2, 2}}}),
      CheckScaled("Conv", image, {4, 16, 1, 1}, {}),
      CheckScaled("MatMul", {2, 144}, {144, 8}, {})};
  for (const ExactCheck& other : others) {
    EXPECT_EQ(other.verdict(), Verdict::kError) << other.why_not;
    EXPECT_FALSE(other.is_inexact);
  }
}

TEST(ExactInputsTest, AnOperationThatAlwaysRoundsIsNotChecked) {
  const Lowered net = ConvolvedNet();
  const ExactCheck check = CheckNode(
      "bent", net.graph, BuiltInFunctions(AllOperators()), net.params);
  EXPECT_EQ(check.verdict(), std::nullopt);
  EXPECT_THAT(check.why_not, HasSubstr("bent (Tanh) rounds any input"));
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
  const auto exact = DrawExactTensors(RegionOfNetwork(b).network, 1);
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
  EXPECT_THAT(DrawExactTensors(RegionOfNetwork(b).network, 1),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("numbers that are not whole")));
}

TEST(ExactInputsTest, ADifferenceCountsAsBothSides) {
  NetBuilder b;
  const ValueId x = b.In("x", {64}, kBfloat16);
  const ValueId y = b.In("y", {64}, kBfloat16);
  b.Out(b.Op("Sub", {x, y}));
  const auto exact = DrawExactTensors(RegionOfNetwork(b).network, 1);
  ASSERT_THAT(exact, IsOk());
  const std::vector<double> a = ToDoubles(exact->inputs[0]);
  const std::vector<double> c = ToDoubles(exact->inputs[1]);
  const std::vector<double> d = ToDoubles(exact->expected[0]);
  for (size_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], a[i] - c[i]);
}

}  // namespace
}  // namespace nodewise
