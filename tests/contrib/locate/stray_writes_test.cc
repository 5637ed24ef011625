// Nodes that write to memory that is not their own: they are named, and no
// other node is accused for what they spoil.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/locate/locate_target.h"
#include "nodewise/planter/planter.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// x -> rise (Tanh) -> middle (Softmax) -> end (Exp).
Lowered RowOfThree() {
  NetBuilder b;
  ValueId y = b.In("x", {3, 5});
  y = b.Op("Tanh", {y}, {}, {"rise_out"}, "rise")[0];
  y = b.Op("Softmax", {y}, {}, {"middle_out"}, "middle")[0];
  b.Out({b.Op("Exp", {y}, {}, {"end_out"}, "end")[0]});
  return Lower(b.net, "net", kPlain).value();
}

PlantedGraph PlantedIn(const std::string& node, FaultKind kind, Graph graph,
                       Ref<Library> library) {
  const NodeId id = GraphIndex(graph).FindNode(node).value();
  PlanterOptions options;
  options.operators = AllOperators();
  const auto planter =
      Planter::Create(std::move(graph), std::move(library), options);
  return (*planter)->PlantAt(kind, id, 3).value();
}

absl::StatusOr<LocateResult> LocateStrayWrites(
    const PlantedGraph& planted, const LocateOptions& options = {}) {
  const auto target = GraphTarget::FromArtefact(
      "net", {planted.graph, planted.library, Params{}}, {kCpu});
  NDArray x = NDArray::Empty({3, 5}, kFloat32, kCpu).value();
  for (int i = 0; i < 15; ++i) {
    x.As<float>()[i] = 0.1F * static_cast<float>(i - 7);
  }
  return LocateInTarget({*target, {{"x", x}}}, AllOperators(), options);
}

TEST(StrayWritesTest,
     ANodeThatWritesPastItsResultIsNamedAndTheOthersAreHealthy) {
  const Lowered net = RowOfThree();
  for (const std::string node : {"rise", "middle", "end"}) {
    SCOPED_TRACE(node);
    const auto result = LocateStrayWrites(
        PlantedIn(node, FaultKind::kOverrun, net.graph, ReferenceFunctions()));
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->culprits.size(), 1U);
    const NodeReport& culprit = result->nodes[result->culprits[0].report];
    EXPECT_EQ(culprit.key, node);
    EXPECT_EQ(culprit.verdict, NodeVerdict::kOverrun);
    EXPECT_THAT(culprit.reason,
                AllOf(HasSubstr("wrote"), HasSubstr("past its output 0")));
    EXPECT_EQ(result->CountOf(NodeVerdict::kHealthy), 2U);
    EXPECT_THAT(result->stand_ins, ElementsAre(node));
  }
}

TEST(StrayWritesTest, AnotherFaultBesideItIsNamedToo) {
  const Lowered net = RowOfThree();
  const PlantedGraph scaled =
      PlantedIn("end", FaultKind::kScale, net.graph, ReferenceFunctions());
  // Planting runs what is to be planted into, which an overrun may spoil.
  const PlantedGraph both =
      PlantedIn("rise", FaultKind::kOverrun, scaled.graph, scaled.library);
  const auto result = LocateStrayWrites(both);
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->culprits.size(), 2U);
  EXPECT_EQ(result->nodes[result->culprits[0].report].verdict,
            NodeVerdict::kOverrun);
  EXPECT_EQ(result->nodes[result->culprits[1].report].key, "end");
  EXPECT_EQ(result->nodes[result->culprits[1].report].verdict,
            NodeVerdict::kBroken);
  ASSERT_TRUE(result->culprits[1].share.has_value());
  EXPECT_GT(*result->culprits[1].share, 0.999);
}

TEST(StrayWritesTest, TheyAreNotLookedForWhereStorageIsNotChecked) {
  const Lowered net = RowOfThree();
  LocateOptions options;
  options.repeats = 0;
  options.checks_storage = false;
  const auto result = LocateStrayWrites(
      PlantedIn("middle", FaultKind::kOverrun, net.graph, ReferenceFunctions()),
      options);
  // What it has spoiled may have ended the run.
  if (!result.ok()) return;
  EXPECT_EQ(result->CountOf(NodeVerdict::kOverrun), 0U);
}

}  // namespace
}  // namespace nodewise
