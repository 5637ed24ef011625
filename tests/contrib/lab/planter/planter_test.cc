#include "nodewise/planter/planter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "nodewise/graph/graph_executor.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// x -> Abs -> Softmax: two nodes.
Lowered TwoNodes() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4});
  const ValueId y = b.Op("Abs", {x}, {}, {"y"}, "first")[0];
  b.Out({b.Op("Softmax", {y}, {}, {"z"}, "second")[0]});
  return Lower(b.net, "net", kPlain).value();
}

std::vector<float> RunPlanted(const PlantedGraph& planted) {
  auto executor = GraphExecutor::Create(planted.graph, planted.library);
  EXPECT_THAT(executor, IsOk());
  EXPECT_THAT(
      (*executor)->SetInput(0, *MakeTensor<float>({1, 4}, {1, -2, 3, -4})),
      IsOk());
  EXPECT_THAT((*executor)->Run(), IsOk());
  return ValuesOf((*executor)->GetOutput(0).value());
}

TEST(PlanterTest, ScalesWhatTheNodeMakesAndNothingElse) {
  const Lowered lowered = TwoNodes();
  const auto library = BuiltInFunctions(AllOperators());
  const std::vector<float> sound =
      RunPlanted({lowered.graph, library, PlantedFault()});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto planted = PlantScale(lowered.graph, library, seed);
    ASSERT_THAT(planted, IsOk());
    const std::vector<float> found = RunPlanted(*planted);
    float sum = 0;
    for (const float value : found) sum += value;
    if (planted->fault.name == "second") {
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_FLOAT_EQ(found[i],
                        sound[i] * static_cast<float>(planted->fault.factor));
      }
    } else {
      // What the second node makes is right for what it reads.
      EXPECT_NE(found, sound);
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

TEST(PlanterTest, OneSeedPlantsOneFaultNearOne) {
  const Lowered lowered = TwoNodes();
  const auto library = BuiltInFunctions(AllOperators());
  std::set<std::string> names;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto fault = PlantScale(lowered.graph, library, seed)->fault;
    const auto again = PlantScale(lowered.graph, library, seed)->fault;
    EXPECT_EQ(fault.node, again.node);
    EXPECT_EQ(fault.factor, again.factor);
    EXPECT_GE(std::fabs(fault.factor - 1), 0.0099);
    EXPECT_LE(std::fabs(fault.factor - 1), 0.0201);
    names.insert(fault.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"first", "second"}));
}

TEST(PlanterTest, AGraphWithoutFloatsIsRefused) {
  NetBuilder b;
  const ValueId x = b.In("x", {4}, {kDLInt, 64, 1});
  b.Out({b.Op("Abs", {x})[0]});
  const Lowered lowered = Lower(b.net, "net", kPlain).value();
  EXPECT_THAT(
      PlantScale(lowered.graph, BuiltInFunctions(AllOperators()), 1),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("no node")));
}

}  // namespace
}  // namespace nodewise
