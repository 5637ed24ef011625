#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/profile/profiler.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

// x -> a -> b -> c -> d, each one more; a and c share storage 0, b and d 1.
Executor PingPong() {
  return MakeSet(GraphBuilder()
                     .Input("x", {{4}, "float32", 100})
                     .Op("a", "inc", {"x"}, {{{4}, "float32", 0}})
                     .Op("b", "inc", {"a"}, {{{4}, "float32", 1}})
                     .Op("c", "inc", {"b"}, {{{4}, "float32", 0}})
                     .Op("d", "inc", {"c"}, {{{4}, "float32", 1}})
                     .Head("d"));
}

// Two arms from x that meet: only one depends on a.
Executor Diamond() {
  return MakeSet(GraphBuilder()
                     .Input("x")
                     .Op("a", "inc", {"x"})
                     .Op("b", "inc", {"x"})
                     .Op("c", "inc", {"a"})
                     .Op("sum", "add", {"b", "c"})
                     .Head("sum")
                     .Head("b"));
}

double FirstOf(const DebugExecutor& executor, uint32_t entry) {
  return ValuesOf(executor.ReadEntry(EntryId{entry}).value())[0];
}

// TV-48.
TEST(SteppingTest, StepRunsOneFunction) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->Step(), IsOk());
  EXPECT_EQ(executor->Position(), NodeId{2});
  EXPECT_EQ(FirstOf(*executor, 1), 1);
}

// Cancels when node 2 has run.
class CancelsAfterTwo : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun& node) override {
    if (node.node == NodeId{2}) cancel = true;
    return absl::OkStatus();
  }
  std::atomic<bool> cancel = false;
};

TEST(SteppingTest, APassThatIsCancelledKeepsWhatHasRun) {
  CancelsAfterTwo canceller;
  DebugExecutor::DebugOptions options;
  options.records = false;
  options.cancel = &canceller.cancel;
  const auto executor = DebugExecutor::Create(GraphBuilder()
                                                  .Input("x")
                                                  .Op("a", "inc", {"x"})
                                                  .Op("b", "inc", {"a"})
                                                  .Op("c", "inc", {"b"})
                                                  .Head("c")
                                                  .Build(),
                                              TestKernels(), options)
                            .value();
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 0, 0, 0})), IsOk());
  executor->AddObserver(&canceller);
  EXPECT_THAT(executor->Continue(),
              FailsWith(StatusCode::kCancelled, HasSubstr("node 3 (c)")));
  EXPECT_EQ(FirstOf(*executor, 2), 3);
  EXPECT_THAT(executor->RunTimed(),
              FailsWith(StatusCode::kCancelled, HasSubstr("node 1 (a)")));
}

TEST(SteppingTest, StepBeyondTheEndIsRefused) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->Continue(), IsOk());
  EXPECT_TRUE(executor->AtEnd());
  EXPECT_THAT(executor->Step(),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("at its end")));
}

TEST(SteppingTest, RunUntilANodeThatHasRunBeginsAnew) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->RunUntil(NodeId{4}), IsOk());
  ASSERT_THAT(executor->RunUntil(NodeId{2}), IsOk());
  EXPECT_EQ(executor->Position(), NodeId{3});
  EXPECT_EQ(FirstOf(*executor, 2), 2);
}

TEST(SteppingTest, SteppedPassEndsWithTheOutputsOfARun) {
  const Executor executor = PingPong();
  while (!executor->AtEnd()) ASSERT_THAT(executor->Step(), IsOk());
  NDArray out = Floats({9, 9, 9, 9});
  ASSERT_THAT(executor->CopyOutput(0, *out), IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(4, 5, 6, 7));
}

TEST(SteppingTest, EntryThatWasNotComputedIsRefused) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->RunUntil(NodeId{1}), IsOk());
  EXPECT_THAT(executor->ReadEntry(EntryId{3}),
              FailsWith(StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("node 3 (c)"),
                              HasSubstr("not been computed"))));
}

TEST(SteppingTest, EntryWhoseStorageWasUsedAgainIsRefused) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->RunUntil(NodeId{3}), IsOk());
  EXPECT_THAT(executor->ReadEntry(EntryId{1}),
              FailsWith(StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("node 1 (a)"),
                              HasSubstr("node 3 (c) has written over it"),
                              HasSubstr("storage 0"))));
  EXPECT_EQ(FirstOf(*executor, 2), 2);
}

TEST(SteppingTest, FastRunLeavesTheSameThingsAlive) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_FALSE(executor->CheckLive(EntryId{1}).ok());
  EXPECT_EQ(FirstOf(*executor, 3), 3);
  EXPECT_EQ(FirstOf(*executor, 4), 4);
  EXPECT_EQ(FirstOf(*executor, 0), 0);
}

TEST(SteppingTest, EntryThatDoesNotExistIsRefused) {
  EXPECT_THAT(PingPong()->ReadEntry(EntryId{99}),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("5 entries")));
}

TEST(SteppingTest, PatchChangesWhatIsStillToRun) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->RunUntil(NodeId{2}), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{2}, *Floats({10, 10, 10, 10})), IsOk());
  ASSERT_THAT(executor->Continue(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 4), 12);
}

TEST(SteppingTest, PatchGivenBeforeTheRunTakesTheNodesPlace) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->Patch(EntryId{2}, *Floats({10, 10, 10, 10})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 4), 12);
  executor->ClearPatches();
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 4), 4);
}

TEST(SteppingTest, NodeThatFailsIsNotCalledIfItsOutputIsPatched) {
  const Executor executor = MakeSet(GraphBuilder()
                                        .Input("x")
                                        .Op("bad", "fail", {"x"})
                                        .Op("c", "inc", {"bad"})
                                        .Head("c"));
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 2), 6);
}

TEST(SteppingTest, OnlyWhatDependsOnAPatchRunsAgain) {
  const Executor executor = Diamond();
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({10, 0, 0, 0})), IsOk());
  EXPECT_THAT(executor->Recompute().value(), ElementsAre(NodeId{3}, NodeId{4}));
  EXPECT_EQ(FirstOf(*executor, 4), 12);
}

TEST(SteppingTest, PatchOfAnEntryThatIsGoneIsPutBackForItsReaders) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({10, 0, 0, 0})), IsOk());
  EXPECT_THAT(executor->Recompute().value(),
              ElementsAre(NodeId{2}, NodeId{3}, NodeId{4}));
  EXPECT_EQ(FirstOf(*executor, 4), 13);
}

TEST(SteppingTest, WhatIsMissingIsComputedAnew) {
  // `late` needs a, whose storage c took over since.
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 100})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 0}})
                  .Op("p", "inc", {"x"}, {{{4}, "float32", 1}})
                  .Op("late", "add", {"a", "p"}, {{{4}, "float32", 2}})
                  .Op("c", "inc", {"x"}, {{{4}, "float32", 0}})
                  .Head("late")
                  .Head("c"));
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{2}, *Floats({10, 0, 0, 0})), IsOk());
  // c is an output that was alive: it must be so again.
  EXPECT_THAT(executor->Recompute().value(),
              ElementsAre(NodeId{1}, NodeId{3}, NodeId{4}));
  EXPECT_EQ(FirstOf(*executor, 3), 11);
  EXPECT_EQ(FirstOf(*executor, 4), 1);
}

TEST(SteppingTest, WhatIsMissingIsComputedAnewFromAsFarBackAsNeedBe) {
  // e and f take over the storages of the chain from a to d.
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 100})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 0}})
                  .Op("b", "inc", {"a"}, {{{4}, "float32", 1}})
                  .Op("c", "inc", {"b"}, {{{4}, "float32", 0}})
                  .Op("d", "inc", {"c"}, {{{4}, "float32", 1}})
                  .Op("p", "inc", {"x"}, {{{4}, "float32", 2}})
                  .Op("sum", "add", {"d", "p"}, {{{4}, "float32", 3}})
                  .Op("e", "inc", {"sum"}, {{{4}, "float32", 0}})
                  .Op("f", "inc", {"e"}, {{{4}, "float32", 1}})
                  .Head("f"));
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{5}, *Floats({10, 0, 0, 0})), IsOk());
  EXPECT_THAT(executor->Recompute().value(),
              ElementsAre(NodeId{1}, NodeId{2}, NodeId{3}, NodeId{4}, NodeId{6},
                          NodeId{7}, NodeId{8}));
  EXPECT_EQ(FirstOf(*executor, 8), 16);
}

TEST(SteppingTest, PatchedInputIsSetForGood) {
  const Executor executor = Diamond();
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{0}, *Floats({5, 5, 5, 5})), IsOk());
  ASSERT_THAT(executor->Recompute(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 4), 13);
}

TEST(SteppingTest, PatchOfAnotherTypeIsRefused) {
  EXPECT_THAT(PingPong()->Patch(EntryId{1}, *Floats({1})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("(4,)")));
}

TEST(SteppingTest, StopsAtTheFirstNodeThatMakesSuchAValue) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->SetInput(0, *Floats({0, 1, 2, 97.5})), IsOk());
  StopValues values;
  values.above = 100;
  const auto stopped =
      executor->ContinueUntil(StopAtValues(*executor, values)).value();
  EXPECT_EQ(stopped, NodeId{3});
  EXPECT_EQ(executor->Position(), NodeId{4});
}

TEST(SteppingTest, StopsAtNaNAndAtInfinityOnlyIfAsked) {
  const Executor executor = PingPong();
  ASSERT_THAT(executor->SetInput(0, *Floats({NAN, INFINITY, 0, 0})), IsOk());
  for (const auto& [nan, infinity] :
       {std::pair{true, false}, std::pair{false, true}}) {
    ASSERT_THAT(executor->Restart(), IsOk());
    const StopValues values{nan, infinity, {}};
    EXPECT_EQ(executor->ContinueUntil(StopAtValues(*executor, values)).value(),
              NodeId{1});
  }
  ASSERT_THAT(executor->Restart(), IsOk());
  EXPECT_EQ(
      executor->ContinueUntil(StopAtValues(*executor, StopValues())).value(),
      std::nullopt);
}

TEST(SteppingTest, PassThatFailedBeginsAnew) {
  const Executor executor = MakeSet(GraphBuilder()
                                        .Input("x")
                                        .Op("a", "inc", {"x"})
                                        .Op("b", "fail", {"a"})
                                        .Head("b"));
  EXPECT_FALSE(executor->Continue().ok());
  EXPECT_EQ(FirstOf(*executor, 1), 1) << "what ran before can be read";
  EXPECT_FALSE(executor->CheckLive(EntryId{2}).ok());
  ASSERT_THAT(executor->Step(), IsOk());
  EXPECT_EQ(executor->Position(), NodeId{2});
}

// The run's output takes over the storage of `a`, which it reads.
TEST(SteppingTest, WhatAFailedRunMayHaveWrittenIsNotAlive) {
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 0})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 1}})
                  .Op("b", "inc", {"a"}, {{{4}, "float32", 2}})
                  .Op("c", "fail", {"b"}, {{{4}, "float32", 1}})
                  .Head("c"));
  EXPECT_FALSE(executor->Run().ok());
  EXPECT_FALSE(executor->CheckLive(EntryId{1}).ok());
  EXPECT_THAT(executor->CheckLive(EntryId{2}), IsOk());
  EXPECT_FALSE(Profiler(executor.get()).TimeNodes(RepeatOptions()).ok());
  EXPECT_FALSE(executor->CheckLive(EntryId{1}).ok());
  EXPECT_FALSE(Profiler(executor.get()).Run({}).ok());
  EXPECT_FALSE(executor->CheckLive(EntryId{1}).ok());
}

TEST(SteppingTest, OutputThatIsBoundInTheMiddleOfAPassKeepsItsValue) {
  const Executor executor = MakeSet(GraphBuilder()
                                        .Input("x")
                                        .Op("a", "inc", {"x"})
                                        .Op("b", "inc", {"a"})
                                        .Head("a")
                                        .Head("b"));
  const NDArray in_place = Floats({9, 9, 9, 9});
  ASSERT_THAT(executor->Step(), IsOk());
  ASSERT_THAT(executor->SetOutputZeroCopy(0, in_place), IsOk());
  EXPECT_THAT(ValuesOf(in_place), ElementsAre(1, 2, 3, 4));
  ASSERT_THAT(executor->Restart(), IsOk());
  ASSERT_THAT(executor->Step(), IsOk());
  const NDArray copied = CopyAtOffset(Floats({9, 9, 9, 9}), 4);
  ASSERT_THAT(executor->SetOutputZeroCopy(0, copied), IsOk());
  EXPECT_EQ(FirstOf(*executor, 1), 1);
  ASSERT_THAT(executor->Continue(), IsOk());
  EXPECT_THAT(ValuesOf(copied), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(FirstOf(*executor, 2), 2);
}

TEST(SteppingTest, OutputThatThePassHasNotReachedIsNotCopied) {
  const Executor executor = PingPong();
  const NDArray result = Floats({9, 9, 9, 9});
  ASSERT_THAT(executor->RunUntil(NodeId{2}), IsOk());  // b, in d's storage.
  EXPECT_THAT(executor->CopyOutput(0, *result),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("output d: the graph has not been run")));
}

TEST(SteppingTest, ZeroCopyInputThatIsPatchedIsReadFromItsSlot) {
  const Executor executor = Diamond();
  ASSERT_THAT(executor->SetInputZeroCopy(0, Floats({5, 5, 5, 5})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{0}, *Floats({10, 0, 0, 0})), IsOk());
  ASSERT_THAT(executor->Recompute(), IsOk());
  EXPECT_EQ(FirstOf(*executor, 4), 23);
}

TEST(SteppingTest, ReshapeThatCostsNothingIsReadAsItsInput) {
  const Executor executor =
      MakeSet(GraphBuilder()
                  .Input("x", {{4}, "float32", 0})
                  .Op("a", "inc", {"x"}, {{{4}, "float32", 1}})
                  .Op("r", "__nop", {"a"}, {{{2, 2}, "float32", 1}})
                  .Op("b", "copy", {"r"}, {{{2, 2}, "float32", 2}})
                  .Head("b"));
  ASSERT_THAT(executor->RunUntil(NodeId{1}), IsOk());
  EXPECT_FALSE(executor->CheckLive(EntryId{2}).ok());
  ASSERT_THAT(executor->RunUntil(NodeId{2}), IsOk());
  EXPECT_EQ(FirstOf(*executor, 2), 1);
  EXPECT_EQ(FirstOf(*executor, 1), 1);
}

TEST(SteppingTest, NodeWithoutOutputsIsCalledAfterAPatch) {
  int calls = 0;
  const Executor executor = MakeSet(
      GraphBuilder()
          .Input("x")
          .Op("a", "inc", {"x"})
          .Op("s", "sink", {"a"}, {})
          .Head("a"),
      WithKernels({{"sink", [&](const std::vector<float*>&) { ++calls; }}}));
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(calls, 1);
}

TEST(SteppingTest, TimesOfAPassThatFailsReachToTheFailure) {
  const GraphBuilder graph = GraphBuilder()
                                 .Input("x")
                                 .Op("a", "inc", {"x"})
                                 .Op("b", "fail", {"a"})
                                 .Head("b");
  for (const bool is_fast : {false, true}) {
    const Executor executor = MakeSet(graph);
    EXPECT_FALSE((is_fast ? executor->Run() : executor->Continue()).ok());
    const TimedRun& times = executor->times();
    EXPECT_EQ(times.whole.start_ns, times.nodes[1].start_ns);
    EXPECT_GE(times.nodes[2].start_ns, times.nodes[1].end_ns);
    EXPECT_GT(times.nodes[1].end_ns, 0);
    EXPECT_EQ(times.whole.end_ns, times.nodes[2].end_ns);
  }
}

TEST(SteppingTest, TimesReachToWhatRanAgain) {
  const Executor executor = Diamond();
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({10, 0, 0, 0})), IsOk());
  ASSERT_THAT(executor->Recompute(), IsOk());
  const TimedRun& times = executor->times();
  EXPECT_EQ(times.whole.end_ns, times.nodes[4].end_ns);
}

}  // namespace
}  // namespace nodewise
