#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_index.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// TV-12.
TEST(PlanStorageTest, SlotIsAsLargeAsItsLargestEntry) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 7})
                          .Op("a", "copy", {"x"}, {{{9}, "int8", 3}})
                          .Op("b", "copy", {"a"}, {{{5}, "float64", 7}})
                          .Op("c", "copy", {"b"}, {{{2}, "float32", 7}})
                          .Build();
  const auto plan = PlanStorage(graph, kDLCPU);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->slots.size(), 2u);
  EXPECT_EQ(plan->slots[0].storage_id, 7);
  EXPECT_EQ(plan->slots[0].bytes, 40u);
  EXPECT_EQ(plan->slots[1].bytes, 9u);
  EXPECT_THAT(plan->slot_of, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(plan->base_of, ElementsAre(0, 1, 2, 3));
}

TEST(PlanStorageTest, SmallTypesTakeAByteAnElement) {
  const Graph graph = GraphBuilder()
                          .Input("b", {{9}, "bool"})
                          .Input("i", {{9}, "int4"})
                          .Input("h", {{9}, "float16"})
                          .Input("none", {{9, 0}})
                          .Input("scalar", {{}})
                          .Build();
  const StoragePlan plan = PlanStorage(graph, kDLCPU).value();
  const size_t bytes[] = {9, 9, 18, 0, 4};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(plan.slots[i].bytes, bytes[i]) << i;
}

TEST(PlanStorageTest, SparseAndHugeIdsMakeNoMoreSlotsThanEntries) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 2147483647})
                          .Input("y", {{4}, "float32", 1000000000})
                          .Build();
  const StoragePlan plan = PlanStorage(graph, kDLCPU).value();
  EXPECT_EQ(plan.slots.size(), 2u);
  EXPECT_EQ(plan.slots[0].storage_id, 2147483647);
}

TEST(PlanStorageTest, NopInItsInputsSlotIsTheSameTensor) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 5})
                          .Op("n", "__nop", {"x"}, {{{2, 2}, "float32", 5}})
                          .Op("m", "__nop", {"n"}, {{{4}, "float32", 5}})
                          .Op("o", "__nop", {"m"}, {{{4}, "float32", 6}})
                          .Build();
  EXPECT_THAT(PlanStorage(graph, kDLCPU)->base_of, ElementsAre(0, 0, 0, 3));
}

// TV-16.
TEST(PlanStorageTest, DevicesComeFromTheGraphOrTheDefault) {
  const Graph without = GraphBuilder().Input("x").Build();
  EXPECT_EQ(PlanStorage(without, kDLCUDA)->slots[0].device_type, kDLCUDA);
  const Graph with =
      GraphBuilder().Input("x", {{4}, "float32", 0, kDLOpenCL}).Build();
  EXPECT_EQ(PlanStorage(with, kDLCUDA)->slots[0].device_type, kDLOpenCL);
}

TEST(PlanStorageTest, StorageOnTwoDevicesIsLocatedAndNamesBoth) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 3, kDLCPU})
                          .Input("y", {{4}, "float32", 3, kDLOpenCL})
                          .Build();
  EXPECT_THAT(
      PlanStorage(graph, kDLCPU),
      FailsWith(absl::StatusCode::kDataLoss,
                AllOf(HasSubstr("graph.json:"),
                      HasSubstr("/attrs/storage_id/1/1: storage 3 for an entry "
                                "on opencl, expected an entry on cpu"))));
}

TEST(PlanStorageTest, ScopeIsThatOfTheLastEntry) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 3})
                          .Input("y", {{4}, "float32", 3})
                          .With("/attrs/storage_scope",
                                R"(["list_str", ["global", "texture"]])")
                          .Build();
  EXPECT_EQ(PlanStorage(graph, kDLCPU)->slots[0].scope, "texture");
}

TEST(PlanStorageTest, EmptyGraphHasAnEmptyPlan) {
  EXPECT_THAT(PlanStorage(GraphBuilder().Build(), kDLCPU)->slots, IsEmpty());
}

}  // namespace
}  // namespace nodewise
