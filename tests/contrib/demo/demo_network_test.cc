#include "nodewise/demo/demo_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/random/random.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

std::vector<float> ResultFor(uint64_t seed) {
  const auto network = MakeDemoNetwork(AllOperators(), seed);
  EXPECT_THAT(network, IsOk());
  RandomSource source(seed, "image");
  const auto made = Interpret(
      *network, {RandomTensor(source, std::vector<int64_t>{1, 3, 32, 32},
                              {kDLFloat, 32, 1})
                     .value()});
  EXPECT_THAT(made, IsOk());
  return ValuesOf((*made)[0]);
}

TEST(DemoNetworkTest, OneSeedGivesOneNetwork) {
  const auto text = [](uint64_t seed) {
    return NetworkToText(MakeDemoNetwork(AllOperators(), seed).value().data());
  };
  EXPECT_EQ(text(3), text(3));
  EXPECT_EQ(ResultFor(3), ResultFor(3));
  EXPECT_NE(ResultFor(3), ResultFor(4));
}

TEST(DemoNetworkTest, IsOfSixtyOperationsOfTheKindsThatItPromises) {
  const auto network = MakeDemoNetwork(AllOperators(), 1);
  ASSERT_THAT(network, IsOk());
  EXPECT_EQ(network->order().size(), 60U);
  std::set<std::string> kinds;
  for (const OperationId id : network->order()) {
    kinds.emplace(network->operation(id).kind());
  }
  for (const char* kind :
       {"Conv", "BatchNormalization", "Relu", "MaxPool", "MatMul", "Softmax",
        "LayerNormalization", "Erf", "Gemm", "ReduceMean"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

TEST(DemoNetworkTest, BecomesAGraphOfFusedNodes) {
  const auto network = MakeDemoNetwork(AllOperators(), 1);
  ASSERT_THAT(network, IsOk());
  const auto lowered = Lower(*network, "demo");
  ASSERT_THAT(lowered, IsOk());
  const size_t functions =
      lowered->graph.nodes.size() - lowered->graph.arg_nodes.size();
  EXPECT_LT(functions, 40U);
  EXPECT_GT(functions, 20U);
}

TEST(DemoNetworkTest, GivesProbabilitiesThatDependOnMoreThanOneClass) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<float> result = ResultFor(seed);
    ASSERT_EQ(result.size(), 10U);
    float sum = 0, largest = 0;
    for (const float probability : result) {
      sum += probability;
      largest = std::max(largest, probability);
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_LT(largest, 0.999F);
  }
}

}  // namespace
}  // namespace nodewise
