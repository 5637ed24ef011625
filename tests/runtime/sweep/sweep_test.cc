#include "nodewise/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/support/thread_pool.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/fixtures.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using FloatPointers = const std::vector<float*>&;

void CopyFour(const float* from, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}

// x -> a = inc -> f = `kernel` -> z = copy.
ExecutorMaker ThreeNodes(const FloatKernel& kernel) {
  return MakerOf(GraphBuilder()
                     .Input("x")
                     .Op("a", "inc", {"x"})
                     .Op("f", "odd", {"a"})
                     .Op("z", "copy", {"f"})
                     .Head("z"),
                 WithKernels({{"odd", kernel}}));
}

std::vector<std::string> FindingsOf(const ExecutorMaker& make,
                                    size_t inherited = 1) {
  const auto report = Sweep(make, {.threads = {1, 2, 3}, .progress = {}});
  EXPECT_THAT(report, IsOk());
  std::vector<std::string> lines;
  if (!report.ok()) return lines;
  EXPECT_EQ(report->inherited, inherited);
  for (const Finding& finding : report->findings) {
    lines.push_back(finding.ToString());
  }
  return lines;
}

TEST(SweepTest, CleanNetworkHasNoFindings) {
  size_t last = 0;
  const SweepOptions options = {.threads = {1, 2},
                                .progress = [&](size_t done, size_t total) {
                                  EXPECT_EQ(done, last + 1);
                                  EXPECT_EQ(total, 12u);
                                  last = done;
                                }};
  const auto report = Sweep(MakerOf(AddThenRelu(), TestKernels()), options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->runs, 12u);
  EXPECT_EQ(last, 12u);
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_EQ(report->inherited, 0u);
}

TEST(SweepTest, ResultThatDependsOnTheThreadsIsFoundWhereItBegins) {
  EXPECT_THAT(FindingsOf(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                const auto task = [&](int id, TaskGroup& group) {
                  if (id == 0) t[1][2] += 0.5f * group.num_tasks();
                  return absl::OkStatus();
                };
                EXPECT_THAT(ParallelRun(0, task), IsOk());
              })),
              ElementsAre("node 2 (f): output 0 differs between 1 and 2 "
                          "threads in 1 of 4 elements, by up to 0.5"));
}

TEST(SweepTest, FindingHasTheRunsAndTheSizeOfTheDifference) {
  const auto report = Sweep(ThreeNodes([](FloatPointers t) {
                              CopyFour(t[0], t[1]);
                              t[1][2] += 0.5f * NumThreads();
                            }),
                            {.threads = {1, 3}, .progress = {}});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1u);
  const Finding& finding = report->findings[0];
  EXPECT_EQ(finding.kind.name, "made-differs");
  EXPECT_EQ(finding.place,
            FindingPlace(
                EntryPlace{{NodeId{2}, "f", "node 2 (f)"}, EntryId{2}, "f:0"}));
  EXPECT_EQ(finding.Number("threads"), 1);
  EXPECT_EQ(finding.Number("other_threads"), 3);
  EXPECT_EQ(finding.Number("other_layout"), 0);
  EXPECT_EQ(finding.Number("differing"), 1);
  EXPECT_EQ(finding.Number("elements"), 4);
  EXPECT_EQ(finding.Number("largest"), 1);
}

TEST(SweepTest, ResultThatDependsOnAnAddressIsFound) {
  EXPECT_THAT(
      FindingsOf(ThreeNodes([](FloatPointers t) {
        CopyFour(t[0], t[1]);
        t[1][0] = static_cast<float>(reinterpret_cast<uintptr_t>(t[1]) % 4096);
      })),
      ElementsAre(HasSubstr("node 2 (f): output 0 differs between two "
                            "addresses of the buffers in 1 of 4")));
}

TEST(SweepTest, ResultThatDependsOnUninitialisedMemoryIsFound) {
  EXPECT_THAT(FindingsOf(ThreeNodes([](FloatPointers t) {
                t[1][1] = t[0][1];
                t[1][2] = t[0][2];
              })),
              ElementsAre("node 2 (f): output 0 differs between two contents "
                          "of unused memory in 2 of 4 elements"));
}

TEST(SweepTest, ResultThatDependsOnTheCallIsFound) {
  EXPECT_THAT(FindingsOf(MakerOf(GraphBuilder()
                                     .Input("x")
                                     .Op("c", "count", {"x"}, {{{1}}})
                                     .Op("d", "inc", {"c"}, {{{1}}})
                                     .Head("d"),
                                 TestKernels())),
              ElementsAre("node 1 (c): output 0 differs between two runs of "
                          "the same in 1 of 1 elements, by up to 1"));
}

TEST(SweepTest, CausesAreToldApartInOneNetwork) {
  int calls = 0;
  const Ref<Library> library =
      WithKernels({{"threads",
                    [](FloatPointers t) {
                      CopyFour(t[0], t[1]);
                      t[1][0] = static_cast<float>(NumThreads());
                    }},
                   {"calls", [&](FloatPointers t) {
                      CopyFour(t[0], t[1]);
                      t[1][0] = static_cast<float>(++calls);
                    }}});
  const auto report = Sweep(MakerOf(GraphBuilder()
                                        .Input("x")
                                        .Op("t", "threads", {"x"})
                                        .Op("c", "calls", {"x"})
                                        .Op("s", "add", {"t", "c"})
                                        .Head("s"),
                                    library),
                            {.threads = {1, 2}, .progress = {}});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 2u);
  EXPECT_THAT(report->findings[0].found, HasSubstr("1 and 2 threads"));
  EXPECT_THAT(report->findings[1].found, HasSubstr("two runs of the same"));
  EXPECT_EQ(report->inherited, 1u);
}

// Counts up with every call, so that no two runs are alike.
class Ticks {
 public:
  float Next() { return static_cast<float>(++ticks_); }

 private:
  int ticks_ = 0;
};

TEST(SweepTest, NodeThatWritesToItsInputIsNamed) {
  Ticks ticks;
  EXPECT_THAT(
      FindingsOf(MakerOf(GraphBuilder()
                             .Input("x")
                             .Op("a", "inc", {"x"})
                             .Op("w", "writes", {"a"})
                             .Op("z", "add", {"a", "w"})
                             .Head("z"),
                         WithKernels({{"writes",
                                       [&](FloatPointers t) {
                                         CopyFour(t[0], t[1]);
                                         t[0][1] = ticks.Next();
                                       }}}))),
      ElementsAre("node 2 (w): writes to its input 0, and what it leaves there "
                  "differs between two runs of the same"));
}

// "keeps" remembers where its output lies, and "strays" writes there.
Ref<Library> StrayLibrary() {
  const auto kept = std::make_shared<float*>();
  const auto ticks = std::make_shared<Ticks>();
  return WithKernels({{"keeps",
                       [kept](FloatPointers t) {
                         CopyFour(t[0], t[1]);
                         *kept = t[1];
                       }},
                      {"strays", [kept, ticks](FloatPointers t) {
                         CopyFour(t[0], t[1]);
                         (*kept)[2] = ticks->Next();
                       }}});
}

// A kept pointer, or a thread that had not finished when the function returned.
TEST(SweepTest, WriteToWhatAnotherNodeMadeIsFoundWhereItIsRead) {
  EXPECT_THAT(FindingsOf(MakerOf(GraphBuilder()
                                     .Input("x")
                                     .Op("k", "keeps", {"x"})
                                     .Op("s", "strays", {"x"})
                                     .Op("z", "add", {"s", "k"})
                                     .Op("e", "inc", {"z"})
                                     .Head("e"),
                                 StrayLibrary())),
              ElementsAre("node 3 (z): input 1 differs between two runs of the "
                          "same, though it was the same after node 1 (k): "
                          "something wrote to it in between"));
}

TEST(SweepTest, WriteToWhatIsNoLongerReadIsFoundAtTheEnd) {
  EXPECT_THAT(FindingsOf(MakerOf(GraphBuilder()
                                     .Input("x")
                                     .Op("k", "keeps", {"x"})
                                     .Op("s", "strays", {"x"})
                                     .Head("k")
                                     .Head("s"),
                                 StrayLibrary()),
                         0),
              ElementsAre("node 1 (k): output 0 differs between two runs of "
                          "the same at the end of the run, though it was the "
                          "same after node 1 (k): something wrote to it in "
                          "between"));
}

TEST(SweepTest, InputsThatAreNotGivenAlikeAreFound) {
  Ticks ticks;
  const ExecutorMaker make = MakerOf(AddThenRelu(), TestKernels());
  const ExecutorMaker unlike = [&](DebugExecutor::DebugOptions options)
      -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    NODEWISE_ASSIGN_OR_RETURN(auto executor, make(std::move(options)));
    const NDArray values =
        NDArray::Empty(executor->InputInfo(0).shape, kFloat32, kCpu).value();
    std::fill_n(static_cast<float*>(values.data()), 4, ticks.Next());
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(0, *values));
    return executor;
  };
  EXPECT_THAT(FindingsOf(unlike, 2),
              ElementsAre(HasSubstr("differs between two runs of the same "
                                    "before the first node ran")));
}

TEST(SweepTest, LaterRunThatFailsSaysWhichItWas) {
  int calls = 0;
  const ExecutorMaker make = MakerOf(AddThenRelu(), TestKernels());
  const ExecutorMaker fails = [&](DebugExecutor::DebugOptions options)
      -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    if (++calls < 3) return make(std::move(options));
    return MakerOf(GraphBuilder().Op("f", "fail", {}).Head("f"),
                   TestKernels())(std::move(options));
  };
  EXPECT_THAT(Sweep(fails, {.threads = {2}, .progress = {}}),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("run 3 of the sweep (threads: 2, layout: 2): "
                                  "node 0 (f): fail: ")));
}

TEST(SweepTest, ThreadCountIsRestored) {
  const int before = NumThreads();
  EXPECT_THAT(Sweep(MakerOf(AddThenRelu(), TestKernels()),
                    {.threads = {before + 3}, .progress = {}}),
              IsOk());
  EXPECT_EQ(NumThreads(), before);
}

TEST(SweepTest, CountsBelowOneAreRefused) {
  const ExecutorMaker make = MakerOf(AddThenRelu(), TestKernels());
  const SweepOptions cases[] = {{.threads = {0}, .progress = {}},
                                {.threads = {}, .layouts = 0, .progress = {}},
                                {.threads = {}, .repeats = -1, .progress = {}}};
  for (const SweepOptions& options : cases) {
    EXPECT_THAT(Sweep(make, options),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("sweep: ")));
  }
}

TEST(SweepTest, FailingFunctionEndsIt) {
  EXPECT_THAT(
      Sweep(
          MakerOf(GraphBuilder().Op("f", "fail", {}).Head("f"), TestKernels()),
          {}),
      FailsWith(StatusCode::kInternal, HasSubstr("node 0 (f): fail: ")));
}

TEST(SweepTest, FixturesAreSteady) {
  const std::vector<std::string> folders = FixtureFolders("tvm-0.14");
  if (folders.empty()) {
    GTEST_SKIP() << "no ../shared/fixtures: artefacts of real TVM not tested";
  }
  for (const std::string& folder : folders) {
    const auto report =
        Sweep(MakerOfFixture(folder), {.threads = {1, 2}, .progress = {}});
    ASSERT_THAT(report, IsOk()) << folder;
    for (const Finding& finding : report->findings) {
      ADD_FAILURE() << folder << ": " << finding.ToString();
    }
    EXPECT_EQ(report->inherited, 0u);
  }
}

}  // namespace
}  // namespace nodewise
