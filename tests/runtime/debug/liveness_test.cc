// Which results of a pass can be read, for all ways to write or overwrite them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/profile/profiler.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

double First(const DebugExecutor& executor, uint32_t entry) {
  return ValuesOf(executor.ReadEntry(EntryId{entry}).value())[0];
}

TEST(LivenessTest, ReshapeBoundBeforeItsNodeTakesAlongWhatItsInputHolds) {
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x")
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 7}})
                  .Op("r", "__nop", {"a"}, {{{2, 2}, "float32", 7}})
                  .Op("b", "inc", {"a"})
                  .Head("r")
                  .Head("b"));
  ASSERT_THAT(executor->Step(), IsOk());
  const NDArray out = MakeTensor<float>({2, 2}, {9, 9, 9, 9});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, out), IsOk());
  EXPECT_EQ(First(*executor, 1), 1);
  ASSERT_THAT(executor->Continue(), IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(First(*executor, 3), 2);
}

TEST(LivenessTest, InputIsSetToWhatIsBoundToIt) {
  const Executor executor =
      MakeSet(GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a"));
  // Nothing else keeps the memory alive.
  ASSERT_THAT(executor->SetInputZeroCopy(0, Floats({5, 6, 7, 8})), IsOk());
  ASSERT_THAT(executor->SetInput(0, executor->TensorOf(EntryId{0})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(6, 7, 8, 9));
}

TEST(LivenessTest, NodeThatFailsWhenTimedByItselfEndsThePass) {
  // c, which fails, writes to the storage of a.
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 100})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 0}})
                  .Op("b", "inc", {"a"}, {{{4}, "float32", 1}})
                  .Op("c", "fail", {"b"}, {{{4}, "float32", 0}})
                  .Head("c"));
  EXPECT_FALSE(Profiler(executor.get()).TimeNode(NodeId{3}, {}).ok());
  EXPECT_THAT(executor->CheckLive(EntryId{1}),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("a node that failed writes to its")));
  EXPECT_THAT(executor->CheckLive(EntryId{2}), IsOk());
  ASSERT_THAT(executor->Step(), IsOk());
  EXPECT_EQ(executor->Position(), NodeId{2});
}

// x -> a -> b, which fails once *fails is true.
Executor FailingLater(const bool* fails) {
  return MakeSet(
      GraphBuilder()
          .Input("x")
          .Op("a", "inc", {"x"})
          .Op("b", "moody", {"a"})
          .Head("b"),
      WithKernels({{"moody", [fails](const std::vector<float*>& tensors) {
                      tensors[1][0] = *fails ? -99.0f : 1.0f;
                      if (*fails) throw std::runtime_error("not now");
                    }}}));
}

TEST(LivenessTest, OutputInTheCallersMemoryIsLostIfItsNodeFails) {
  bool fails = false;
  const Executor executor = FailingLater(&fails);
  const NDArray out = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, out), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  fails = true;
  EXPECT_FALSE(executor->Recompute().ok());
  EXPECT_THAT(executor->CheckLive(EntryId{2}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("(b)")));
  EXPECT_FALSE(executor->CopyOutput(0, *Floats({0, 0, 0, 0})).ok());
}

TEST(LivenessTest, WhatWasLostIsNotFoundInATensorThatIsBoundLater) {
  bool fails = false;
  const Executor executor = FailingLater(&fails);
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  fails = true;
  EXPECT_FALSE(executor->Recompute().ok());
  ASSERT_THAT(executor->SetOutputZeroCopy(0, Floats({7, 7, 7, 7})), IsOk());
  EXPECT_FALSE(executor->CheckLive(EntryId{2}).ok());
  fails = false;
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(First(*executor, 2), 1);
}

TEST(LivenessTest, PatchOfWhatAFailedRunLeftIsThereAtOnce) {
  const Executor executor = MakeSet(GraphBuilder()
                                        .Input("x")
                                        .Op("a", "inc", {"x"})
                                        .Op("b", "fail", {"a"})
                                        .Head("b"));
  EXPECT_FALSE(executor->Run().ok());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({50, 50, 50, 50})), IsOk());
  EXPECT_EQ(First(*executor, 1), 50);
}

// Patches output 0 of node 1 as soon as that has run.
class Patcher : public NodeObserver {
 public:
  explicit Patcher(DebugExecutor* executor) : executor_(*executor) {}
  absl::Status AfterNode(const NodeRun& node) override {
    if (node.node != NodeId{1}) return absl::OkStatus();
    return executor_.Patch(EntryId{1}, *Floats({50, 50, 50, 50}));
  }

 private:
  DebugExecutor& executor_;
};

TEST(LivenessTest, PatchByAnObserverIsReadByTheNextNode) {
  const Executor executor = MakeSet(GraphBuilder()
                                        .Input("x")
                                        .Op("a", "inc", {"x"})
                                        .Op("b", "inc", {"a"})
                                        .Head("b"));
  Patcher patcher(executor.get());
  executor->AddObserver(&patcher);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(First(*executor, 2), 51);
}

TEST(LivenessTest, InputIsAliveOnceItIsSet) {
  const GraphBuilder graph =
      GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a");
  const NDArray x = Floats({5, 6, 7, 8});
  Executor executor = MakeUnset(graph);
  ASSERT_THAT(executor->SetInput(0, *x), IsOk());
  EXPECT_EQ(First(*executor, 0), 5);
  for (const size_t offset : {0, 4}) {
    executor = MakeUnset(graph);
    ASSERT_THAT(executor->SetInputZeroCopy(0, CopyAtOffset(x, offset)), IsOk());
    EXPECT_EQ(First(*executor, 0), 5);
  }
  executor = MakeUnset(graph);
  ASSERT_THAT(executor->GetInput(0), IsOk());
  EXPECT_THAT(executor->CheckLive(EntryId{0}), IsOk());
}

TEST(LivenessTest, InputThatWasNeverSetIsNeverAlive) {
  const Executor executor =
      MakeUnset(GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a"));
  const auto refusal =
      FailsWith(StatusCode::kFailedPrecondition,
                HasSubstr("node 0 (x): was never set (set it first)"));
  EXPECT_THAT(executor->CheckLive(EntryId{0}), refusal);
  EXPECT_FALSE(Profiler(executor.get()).Run({}).ok());
  EXPECT_FALSE(executor->Run().ok());
  EXPECT_THAT(executor->CheckLive(EntryId{0}), refusal);
}

// It is not known how far a plain run came.
TEST(LivenessTest, InputThatAFailedPlainRunMayHaveWrittenOverIsNotAlive) {
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 0})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 1}})
                  .Op("b", "inc", {"a"}, {{{4}, "float32", 0}})
                  .Op("c", "fail", {"b"}, {{{4}, "float32", 1}})
                  .Head("c"));
  EXPECT_FALSE(Profiler(executor.get()).Run({}).ok());
  EXPECT_FALSE(executor->CheckLive(EntryId{0}).ok());
}

TEST(LivenessTest, PatchOfAnOutputReachesTheTensorItIsCopiedTo) {
  const Executor executor =
      MakeSet(GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a"));
  const NDArray out = CopyAtOffset(Floats({0, 0, 0, 0}), 4);
  ASSERT_THAT(executor->SetOutputZeroCopy(0, out), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(5, 5, 5, 5));
}

}  // namespace
}  // namespace nodewise
