#include "nodewise/align/build_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/runners/runner_list.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Split has two outputs, of which one goes on through a Reshape; y is an output
// and read as well.
std::shared_ptr<const GraphTarget> Target() {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 4});
  const ValueId w = b.Const("w", Floats({1, 2, 3, 4}));
  const ValueId y = b.Op("Mul", {x, w}, {}, {"y"}, "scale")[0];
  const auto parts =
      b.Op("Split", {y}, {{"axis", 1}, {"num_outputs", 2}}, {"p", "q"}, "cut");
  const ValueId shape = b.Const("shape", MakeTensor<int64_t>({1}, {4}, kInt64));
  const ValueId flat =
      b.Op("Reshape", {parts[1], shape}, {}, {"flat"}, "flatten")[0];
  const ValueId z = b.Op("Relu", {flat}, {}, {"z"}, "bend")[0];
  b.Out({y, parts[0], z});
  Lowered lowered = Lower(b.net, "net", kPlain).value();
  return GraphTarget::FromArtefact(
             "net",
             {std::move(lowered.graph), BuiltInFunctions(AllOperators()),
              Params{std::move(lowered.params)}},
             {kCpu})
      .value();
}

std::vector<NamedTensor> Given() {
  return {{"x", MakeTensor<float>({2, 4}, {1, -2, 3, -4, 5, -6, 7, -8})}};
}

TEST(BuildNetworkTest, ItComputesWhatTheBuildDoes) {
  const auto target = Target();
  const auto network = NetworkOfBuild(target);
  ASSERT_THAT(network, IsOk());
  const auto runner = MakerOf("plain", {"net", target}).value()().value();
  const auto expected = runner->Run(Given());
  ASSERT_THAT(expected, IsOk());
  const auto made = Interpret(*network, {Given()[0].tensor});
  ASSERT_THAT(made, IsOk());
  ASSERT_EQ(made->size(), expected->outputs.size());
  for (size_t i = 0; i < made->size(); ++i) {
    EXPECT_TRUE(HaveSameBits((*made)[i], expected->outputs[i].tensor)) << i;
  }
}

TEST(BuildNetworkTest, NodesEntriesAndParametersAreThere) {
  const auto network = NetworkOfBuild(Target());
  ASSERT_THAT(network, IsOk());
  std::vector<std::string> operations;
  for (const OperationId id : network->order()) {
    operations.push_back(network->operation(id).name);
  }
  EXPECT_THAT(operations, ElementsAre("scale", "cut", "flatten", "bend"));
  ASSERT_EQ(network->inputs().size(), 1U);
  EXPECT_EQ(network->value(network->inputs()[0]).name, "x");
  const Operation& scale = network->operation(network->order()[0]);
  const NetworkValue& weight = network->value(scale.inputs[1]);
  EXPECT_EQ(weight.kind, NetworkValue::Kind::kConstant);
  EXPECT_THAT(ValuesOf(weight.data), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(network->operation(network->order()[1]).outputs.size(), 2U);
}

// Each node is an operation of its own, no matter what it is called.
TEST(BuildNetworkTest, NoTwoNodesAreTheSame) {
  const auto network = NetworkOfBuild(Target());
  ASSERT_THAT(network, IsOk());
  const auto order = network->order();
  EXPECT_FALSE(network->operation(order[0]).attrs ==
               network->operation(order[1]).attrs);
  EXPECT_TRUE(network->operation(order[0]).attrs ==
              network->operation(order[0]).attrs);
}

}  // namespace
}  // namespace nodewise
