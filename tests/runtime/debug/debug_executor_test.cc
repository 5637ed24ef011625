#include "nodewise/debug/debug_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "nodewise/profile/profiler.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

Executor Make(const GraphBuilder& graph,
              DebugExecutor::DebugOptions options = {}) {
  options.records = false;
  return DebugExecutor::Create(graph.Build(), TestKernels(), options).value();
}

// x, and `length` nodes that add one, in two storages by turns.
GraphBuilder Chain(int length) {
  GraphBuilder graph;
  graph.Input("x", {{4}, "float32", 100});
  std::string last = "x";
  for (int i = 0; i < length; ++i) {
    const std::string name = "n" + std::to_string(i);
    graph.Op(name, "inc", {last}, {{{4}, "float32", i % 2}});
    last = name;
  }
  return graph.Head(last);
}

Executor MakeChain(int length) {
  Executor executor = Make(Chain(length));
  EXPECT_THAT(executor->SetInput(0, *Floats({0, 10, 20, 30})), IsOk());
  return executor;
}

// TV-25.
TEST(DebugExecutorTest, TakesThePlaceOfAGraphExecutor) {
  const Executor debug = MakeChain(3);
  GraphExecutor* const executor = debug.get();
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(3, 13, 23, 33));
}

// TV-46.
TEST(DebugExecutorTest, EndOfANodeIsTheStartOfTheNext) {
  const Executor executor = MakeChain(5);
  ASSERT_THAT(executor->Run(), IsOk());
  const std::vector<NodeTime>& times = executor->times().nodes;
  ASSERT_EQ(times.size(), 6u);
  EXPECT_EQ(times[0].end_ns, 0) << "an input does not run";
  for (size_t n = 2; n < times.size(); ++n) {
    EXPECT_EQ(times[n].start_ns, times[n - 1].end_ns);
    EXPECT_GE(times[n].end_ns, times[n].start_ns);
  }
  EXPECT_EQ(executor->times().whole.start_ns, times[1].start_ns);
  EXPECT_EQ(executor->times().whole.end_ns, times[5].end_ns);
}

TEST(DebugExecutorTest, NodeThatFailsIsNamedAndLaterOnesHaveNoTime) {
  const Executor executor = Make(GraphBuilder()
                                     .Input("x")
                                     .Op("a", "inc", {"x"})
                                     .Op("b", "fail", {"a"})
                                     .Op("c", "inc", {"b"})
                                     .Head("c"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT(executor->Run(),
              FailsWith(StatusCode::kInternal, HasSubstr("node 2 (b)")));
  EXPECT_NE(executor->times().nodes[1].end_ns, 0);
  EXPECT_EQ(executor->times().nodes[3].end_ns, 0);
}

TEST(DebugExecutorTest, InputThatWasNeverSetIsAnErrorAsInTheOther) {
  EXPECT_THAT(Make(Chain(1))->Run(),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("x")));
}

class Log : public NodeObserver {
 public:
  absl::Status BeforePass(const RunView&) override {
    lines.push_back("pass");
    return absl::OkStatus();
  }
  absl::Status BeforeNode(const NodeRun& node) override {
    lines.push_back("before " + std::to_string(Index(node.node)));
    return absl::OkStatus();
  }
  absl::Status AfterNode(const NodeRun& node) override {
    lines.push_back("after " + std::to_string(Index(node.node)));
    return status;
  }
  void NodeFailed(const NodeRun& node, const absl::Status&) override {
    lines.push_back("failed " + std::to_string(Index(node.node)));
  }
  void AfterPass(const RunView&, const absl::Status& end) override {
    lines.push_back("end " + absl::StatusCodeToString(end.code()));
  }

  std::vector<std::string> lines;
  absl::Status status;
};

TEST(DebugExecutorTest, ObserverSeesEveryNodeInOrder) {
  const Executor executor = MakeChain(2);
  Log log;
  executor->AddObserver(&log);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(log.lines, ElementsAre("pass", "before 1", "after 1", "before 2",
                                     "after 2", "end OK"));
}

// Says of each node what can be known of it while the run goes on.
class Describer : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun& node) override {
    const GraphNode& described = node.run.graph().nodes[Index(node.node)];
    lines.push_back(node.run.index().TitleOf(node.node) + ": " +
                    described.function);
    for (const EntryRef& input : described.inputs) {
      lines.back() += " " + node.run.graph().nodes[input.node].name;
    }
    for (const DLTensor* output : node.run.OutputsOf(node.node)) {
      lines.back() += ", " + TypeToString(ShapeOf(*output), output->dtype);
    }
    return absl::OkStatus();
  }

  std::vector<std::string> lines;
};

// TV-47.
TEST(DebugExecutorTest, ObserverMayAskForNodesShapesAndTypes) {
  const Executor executor =
      Make(GraphBuilder()
               .Input("x", {{6}})
               .Op("s", "split", {"x"}, {{{2}}, {{4}}})
               .Op("c", "inc", {"s:1"}, {{{4}, "float64"}})
               .Head("c"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4, 5, 6})), IsOk());
  Describer describer;
  executor->AddObserver(&describer);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(describer.lines,
              ElementsAre("node 1 (s): split x, float32 (2,), float32 (4,)",
                          "node 2 (c): inc s, float64 (4,)"));
}

TEST(DebugExecutorTest, ErrorOfAnObserverEndsTheRun) {
  const Executor executor = MakeChain(2);
  Log log;
  log.status = absl::AbortedError("enough");
  executor->AddObserver(&log);
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kAborted, "enough"));
  EXPECT_THAT(log.lines,
              ElementsAre("pass", "before 1", "after 1", "end ABORTED"));
}

TEST(DebugExecutorTest, ObserverHearsOfTheNodeThatFailed) {
  const Executor executor = MakeChain(2);
  Log log;
  executor->AddObserver(&log);
  executor->SetInvoker([](NodeId, absl::FunctionRef<absl::Status()>) {
    return absl::DataLossError("not this one");
  });
  EXPECT_FALSE(executor->Run().ok());
  EXPECT_THAT(log.lines,
              ElementsAre("pass", "before 1", "failed 1", "end DATA_LOSS"));
}

TEST(DebugExecutorTest, PassThatIsGivenUpHasAnEndToo) {
  const Executor executor = MakeChain(2);
  Log log;
  executor->AddObserver(&log);
  ASSERT_THAT(executor->Step(), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(
      log.lines,
      ElementsAre("pass", "before 1", "after 1", "end CANCELLED", "pass",
                  "before 1", "after 1", "before 2", "after 2", "end OK"));
}

TEST(DebugExecutorTest, PassOverAGraphWithoutNodesEndsAtOnce) {
  const Executor executor = Make(GraphBuilder());
  Log log;
  executor->AddObserver(&log);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(log.lines, ElementsAre("pass", "end OK"));
}

TEST(DebugExecutorTest, InvokerStandsBetweenTheRunAndTheNode) {
  const Executor executor = MakeChain(2);
  executor->SetInvoker([](NodeId node, absl::FunctionRef<absl::Status()> call) {
    return node == NodeId{1} ? absl::DataLossError("not this one") : call();
  });
  EXPECT_THAT(executor->Run(),
              FailsWith(StatusCode::kDataLoss, "not this one"));
}

TEST(DebugExecutorTest, ProfilePairsEveryRunWithAPlainOne) {
  const Executor executor = MakeChain(4);
  Profiler::Options options;
  options.runs = 5;
  size_t calls = 0;
  options.progress = [&](size_t done, size_t total) {
    ++calls;
    EXPECT_LE(done, total);
  };
  const Profile profile = Profiler(executor.get()).Run(options).value();
  EXPECT_EQ(profile.runs.size(), 5u);
  EXPECT_EQ(profile.plain_ns.size(), 5u);
  EXPECT_EQ(calls, 8u);
  EXPECT_TRUE(profile.isolated.empty());
  for (const TimedRun& run : profile.runs) {
    EXPECT_LE(run.whole.start_ns, run.nodes[1].start_ns);
    EXPECT_GE(run.whole.end_ns, run.nodes[4].end_ns);
  }
}

TEST(DebugExecutorTest, IsolatedTimesAreByNodeAndRepeat) {
  const Executor executor = MakeChain(2);
  RepeatOptions options;
  options.number = 3;
  options.repeat = 4;
  const auto seconds = Profiler(executor.get()).TimeNodes(options).value();
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_THAT(seconds[0], ElementsAre(0, 0, 0, 0));
  ASSERT_EQ(seconds[1].size(), 4u);
  EXPECT_GT(seconds[1][0], 0);
}

TEST(DebugExecutorTest, IsolatedTimingLeavesTheResultOfOneRun) {
  // In place: without other memory to write to, repeating would go on adding.
  const Executor executor =
      Make(GraphBuilder()
               .Input("x")
               .Op("a", "inc", {"x"}, {{{4}, "float32", 7}})
               .Op("b", "inc", {"a"}, {{{4}, "float32", 7}})
               .Head("b"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  RepeatOptions options;
  options.number = 7;
  options.repeat = 2;
  ASSERT_THAT(Profiler(executor.get()).TimeNodes(options), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(3, 4, 5, 6));
}

TEST(DebugExecutorTest, IsolatedOptionsOutOfRangeAreNamed) {
  RepeatOptions options;
  options.repeats_to_cooldown = 0;
  EXPECT_THAT(Profiler(MakeChain(1).get()).TimeNodes(options),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("repeats_to_cooldown is 0")));
}

TEST(DebugExecutorTest, OutputsOfAPlainRunAreTheSameBits) {
  const Executor debug = MakeChain(3);
  const auto plain =
      GraphExecutor::Create(Chain(3).Build(), TestKernels()).value();
  ASSERT_THAT(plain->SetInput(0, *Floats({0, 10, 20, 30})), IsOk());
  ASSERT_THAT(debug->Run(), IsOk());
  ASSERT_THAT(plain->Run(), IsOk());
  const OutputCheck check = CompareOutputs(*debug, *plain).value();
  EXPECT_TRUE(check.same);
  EXPECT_THAT(check.text, HasSubstr("bit for bit"));
  EXPECT_THAT(check.text, HasSubstr("1 tensor, 16 bytes"));
}

// A debugger that is broken: it flips the lowest bit of what a node made.
class BitFlipper : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun& node) override {
    static_cast<uint8_t*>(node.outputs[0]->data)[9] ^= 1;
    return absl::OkStatus();
  }
};

TEST(DebugExecutorTest, OneFlippedBitChangesTheLine) {
  const Executor debug = MakeChain(1);
  const Executor plain = MakeChain(1);
  BitFlipper flipper;
  debug->AddObserver(&flipper);
  ASSERT_THAT(debug->Run(), IsOk());
  ASSERT_THAT(plain->Run(), IsOk());
  const OutputCheck check = CompareOutputs(*debug, *plain).value();
  EXPECT_FALSE(check.same);
  EXPECT_THAT(check.text, HasSubstr("NOT those of a plain run"));
  EXPECT_THAT(check.text, HasSubstr("byte 9 of 16"));
}

TEST(DebugExecutorTest, BitFlippedBetweenTwoNodesShowsWhereItIsRead) {
  const Executor debug = MakeChain(2);
  BitFlipper flipper;
  debug->AddObserver(&flipper);
  ASSERT_THAT(debug->StartRecording({.tensors = false, .root = Folder()}),
              IsOk());
  ASSERT_THAT(debug->Run(), IsOk());
  const auto dump = OpenDump(debug->dump_folder());
  ASSERT_THAT(dump, IsOk());
  ASSERT_EQ(dump->records.size(), 7u);
  const NodeRecord& made = dump->records[3];
  const NodeRecord& read = dump->records[4];
  ASSERT_EQ(made.kind, NodeRecord::Kind::kOutput);
  ASSERT_EQ(read.kind, NodeRecord::Kind::kInput);
  EXPECT_EQ(made.entry, read.entry);
  EXPECT_NE(made.stats.hash, read.stats.hash);
}

TEST(DebugExecutorTest, GivenPlanIsUsed) {
  DebugExecutor::DebugOptions options;
  options.plan = StoragePlan{
      {{0, 16, kDLCPU, ""}, {1, 16, kDLCPU, ""}, {2, 16, kDLCPU, ""}},
      {0, 1, 2},
      {0, 1, 2}};
  const Executor executor = Make(Chain(2), options);
  EXPECT_EQ(executor->plan().slots.size(), 3u);
}

TEST(DebugExecutorTest, GivenPlanWithASlotTooSmallIsRefused) {
  DebugExecutor::DebugOptions options;
  options.plan =
      StoragePlan{{{0, 16, kDLCPU, ""}, {1, 8, kDLCPU, ""}}, {0, 1}, {0, 1}};
  options.records = false;
  EXPECT_THAT(
      DebugExecutor::Create(Chain(1).Build(), TestKernels(), options),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("storage 1 has 8 bytes, expected at least 16")));
}

TEST(DebugExecutorTest, GivenPlanForAnotherGraphIsRefused) {
  DebugExecutor::DebugOptions options;
  options.plan = StoragePlan{{{0, 16, kDLCPU, ""}}, {0}, {0}};
  EXPECT_THAT(DebugExecutor::Create(Chain(1).Build(), TestKernels(), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("one per")));
}

TEST(RunProfileTest, TasksOfAParallelNodeAreSpansInsideIt) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  const Executor executor =
      DebugExecutor::Create(GraphBuilder()
                                .Input("x")
                                .Op("s", "add_neighbours_square", {"x"})
                                .Head("s")
                                .Build(),
                            LibraryOf(LoadTestLibrary("parallel_llvm")),
                            options)
          .value();
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  Profiler::Options watched;
  watched.watches_workers = true;
  const auto profile = Profiler(executor.get()).Run(watched);
  ASSERT_THAT(profile, IsOk());
  std::set<int> workers;
  for (const WorkerSpan& span : profile->workers) {
    EXPECT_EQ(span.node, NodeId{1});
    EXPECT_GE(span.start_ns, profile->watched.nodes[1].start_ns);
    EXPECT_LE(span.end_ns, profile->watched.nodes[1].end_ns);
    workers.insert(span.worker);
  }
  // Tasks with a barrier run at the same time, so on four threads.
  EXPECT_EQ(workers, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(profile->workers.size(), 4u);
}

TEST(RunProfileTest, WorkersAreNotWatchedUnlessAskedFor) {
  const auto profile = Profiler(MakeChain(1).get()).Run({});
  ASSERT_THAT(profile, IsOk());
  EXPECT_TRUE(profile->watched.nodes.empty());
}

// Says that it counts "calls".
class Calls : public Collector {
 public:
  std::vector<std::string> Names() const override { return {"calls"}; }
  absl::Status Start() override { return absl::OkStatus(); }
  void Read(absl::Span<double> values) override { values[0] = 0; }
  void Stop() override {}
};

TEST(RunProfileTest, CountersOfOneNameAreToldApart) {
  Calls first, second, third;
  Profiler::Options options;
  options.collectors = {&first, &second, &third};
  const auto profile = Profiler(MakeChain(1).get()).Run(options);
  ASSERT_THAT(profile, IsOk());
  std::vector<std::string> names;
  for (const NodeCounts& counts : profile->counters) {
    names.push_back(counts.name);
  }
  EXPECT_THAT(names, ElementsAre("calls", "calls#2", "calls#3"));
}

}  // namespace
}  // namespace nodewise
