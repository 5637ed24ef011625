#include "nodewise/lower/lowering_plan.h"

#include <gtest/gtest.h>

#include "nodewise/runner/reference_kernels.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kStaleCode = absl::StatusCode::kFailedPrecondition;

// x -> neg -> abs -> relu -> y: three nodes without fusion, of which the first
// and the third can share memory, were that not an output.
struct PlannedChain {
  NetBuilder b;
  PlannedChain() {
    const ValueId x = b.In("x", {4});
    const ValueId n = b.Op("Neg", {x}, {}, {"n"}, "neg")[0];
    const ValueId a = b.Op("Abs", {n}, {}, {"a"}, "abs")[0];
    const ValueId r = b.Op("Relu", {a}, {}, {"r"}, "relu")[0];
    b.Out(b.Op("Sqrt", {r}, {}, {"y"}, "sqrt"));
  }
};

// OV-09.
TEST(LoweringPlanTest, TablesSayWhatTheGraphWillBe) {
  PlannedChain chain;
  const auto plan = LoweringPlan::Make(chain.b.net, {.fuse = false});
  ASSERT_THAT(plan, IsOk());
  const NodeTable& nodes = **plan->nodes();
  const StorageTable& storage = **plan->storage();
  EXPECT_TRUE((*plan->layouts())->empty());
  EXPECT_EQ(*plan->kernels(), nullptr);
  const auto lowered = Lower(chain.b.net, "net", *plan);
  ASSERT_THAT(lowered, IsOk());
  const Graph& graph = lowered->graph;
  ASSERT_EQ(graph.nodes.size(), nodes.size() + 1);
  std::vector<int32_t> ids;
  std::vector<int32_t> blocks;
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(graph.nodes[i + 1].name, nodes[i].region.network.name());
    ids.push_back(graph.entries[i + 1].storage_id);
    blocks.push_back(storage[Index(nodes[i].outputs[0])]);
  }
  EXPECT_THAT(blocks, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(ids, ElementsAre(1, 2, 1, 2));
}

// OV-11.
TEST(LoweringPlanTest, TablesOfAnEditedNetworkCannotBeRead) {
  PlannedChain chain;
  Network& net = chain.b.net;
  const auto plan = LoweringPlan::Make(net, {.makers = {ReferenceKernels()}});
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(Lower(net, "net", *plan), IsOk());
  ASSERT_THAT(net.Rename(net.FindValue("n").value(), "m"), IsOk());
  const auto is_stale =
      FailsWith(kStaleCode, HasSubstr("was edited since pass lowering"));
  EXPECT_THAT(plan->nodes(), is_stale);
  EXPECT_THAT(plan->layouts(), is_stale);
  EXPECT_THAT(plan->storage(), is_stale);
  EXPECT_THAT(plan->kernels(), is_stale);
  EXPECT_THAT(Lower(net, "net", *plan), is_stale);
  EXPECT_THAT(Lower(net, "net", LowerOptions()), IsOk());
}

TEST(LoweringPlanTest, APlanIsOfOneNetwork) {
  PlannedChain chain;
  PlannedChain other;
  const auto plan = LoweringPlan::Make(chain.b.net, {});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(Lower(other.b.net, "net", *plan),
              FailsWith(kStaleCode, HasSubstr("pass lowering")));
}

// Counts how often it is asked.
class CountingMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "counting"; }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region& region) const override {
    ++count;
    return reference_->Plan(region);
  }
  mutable int count = 0;

 private:
  const std::shared_ptr<const KernelMaker> reference_ = ReferenceKernels();
};

// OV-10.
TEST(LoweringPlanTest, NodesAreBoundAsTheTableSaysWithoutAskingAgain) {
  PlannedChain chain;
  const auto maker = std::make_shared<CountingMaker>();
  const auto lowered =
      Lower(chain.b.net, "net", {.fuse = false, .makers = {maker}});
  ASSERT_THAT(lowered, IsOk());
  EXPECT_EQ(maker->count, 4);
  const auto library = MakeRef<LoweredLibrary>(
      AllOperators(), std::vector<std::shared_ptr<const KernelMaker>>{maker},
      lowered->kernels);
  ASSERT_THAT(GraphExecutor::Create(lowered->graph, library), IsOk());
  EXPECT_EQ(maker->count, 4);
  EXPECT_EQ(library->choices().size(), 4);
  // A node that says something else than what was planned is looked at itself.
  Graph changed = lowered->graph;
  std::string& text = changed.nodes[1].attrs[0].second;
  text.replace(text.find("Neg@"), 3, "Abs");
  ASSERT_THAT(GraphExecutor::Create(changed, library), IsOk());
  EXPECT_EQ(maker->count, 5);
}

}  // namespace
}  // namespace nodewise
