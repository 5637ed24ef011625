#include "nodewise/memcheck/plan_sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "fmt/format.h"
#include "nodewise/support/thread_pool.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/fixtures.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using FloatPointers = const std::vector<float*>&;

// The optimiser must neither see nor drop what a faulty kernel does.
void WriteByte(void* base, int64_t offset, uint8_t value) {
  static_cast<volatile uint8_t*>(base)[offset] = value;
}
void CopyFour(const float* from, float* to) {
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}

std::vector<std::string> FindingsIn(const ExecutorMaker& make,
                                    const SanitizeOptions& options = {}) {
  const auto report = Sanitize(make, options);
  EXPECT_THAT(report, IsOk());
  std::vector<std::string> lines;
  if (!report.ok()) return lines;
  for (const Finding& finding : report->findings) {
    lines.push_back(std::string(finding.kind.name) + ": " + finding.ToString());
  }
  return lines;
}

// x -> a = inc -> f = `kernel` -> z = copy.
ExecutorMaker ThreeNodes(const FloatKernel& kernel) {
  return MakerOf(GraphBuilder()
                     .Input("x")
                     .Op("a", "inc", {"x"})
                     .Op("f", "faulty", {"a"})
                     .Op("z", "copy", {"f"})
                     .Head("z"),
                 WithKernels({{"faulty", kernel}}));
}

TEST(SanitizeTest, CleanNetworkIsSilent) {
  GraphBuilder chain;
  chain.Input("x", {{4}, "float32", 0});
  for (int i = 0; i < 40; ++i) {
    chain.Op("n" + std::to_string(i), "inc", {"#" + std::to_string(i)},
             {{{4}, "float32", 1 + i % 2}});
  }
  const auto report = Sanitize(MakerOf(chain.Head("n39"), TestKernels()), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_EQ(report->nodes, 40u);
  ASSERT_EQ(report->outputs.size(), 1u);
  EXPECT_EQ(report->outputs[0].name, "n39");
  EXPECT_THAT(ValuesOf(report->outputs[0].tensor), ElementsAre(41, 42, 43, 44));
}

TEST(SanitizeTest, SlotsOfManySizesFreeNopsAndEmptyTensorsAreSilent) {
  EXPECT_THAT(FindingsIn(MakerOf(
                  GraphBuilder()
                      .Input("x", {{1500}, "float32", 0})
                      .Op("s", "split", {"x"},
                          {{{1}, "float32", 1},
                           {{1498}, "float32", 2},
                           {{1}, "float32", 3}})
                      .Op("n", "__nop", {"s:1"}, {{{2, 749}, "float32", 2}})
                      .Op("r", "copy", {"n"}, {{{2, 749}, "float32", 4}})
                      .Op("t", "inc", {"s:2"}, {{{1}, "float32", 2}})
                      .Op("e", "copy", {"x"}, {{{0}, "float32", 5}})
                      .Head("t")
                      .Head("r")
                      .Head("e"),
                  TestKernels())),
              IsEmpty());
}

TEST(SanitizeTest, OverrunByOneByteIsFound) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                WriteByte(t[1], 16, 1);
              })),
              ElementsAre("overrun: node 2 (f) wrote 1 byte past its output 0 "
                          "(first at byte 16)"));
}

TEST(SanitizeTest, UnderrunByOneByteIsFound) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                WriteByte(t[1], -1, 1);
              })),
              ElementsAre("overrun: node 2 (f) wrote 1 byte before its output "
                          "0 (first at byte -1)"));
}

TEST(SanitizeTest, OverrunIsFoundForAnyByteThatIsWritten) {
  for (int value = 0; value < 256; ++value) {
    const auto report = Sanitize(ThreeNodes([=](FloatPointers t) {
                                   CopyFour(t[0], t[1]);
                                   WriteByte(t[1], 17, value);
                                 }),
                                 {.compare_private = false});
    ASSERT_THAT(report, IsOk());
    ASSERT_EQ(report->findings.size(), 1u) << value;
    EXPECT_EQ(report->findings[0].Number("offset"), 17);
    EXPECT_EQ(report->findings[0].Number("bytes"), 1);
  }
}

TEST(SanitizeTest, OverrunIntoTheGuardPageIsOneFault) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                for (int i = 0; i < 5000; ++i) WriteByte(t[1], 16 + i, 1);
              })),
              ElementsAre("overrun: node 2 (f) wrote 5000 bytes past its "
                          "output 0 (first at byte 16)"));
}

TEST(SanitizeTest, OverrunOfAnEntrySmallerThanItsSlotIsFound) {
  const FloatKernel kernel = [](FloatPointers t) {
    CopyFour(t[0], t[1]);
    WriteByte(t[1], 16, 1);
  };
  EXPECT_THAT(
      FindingsIn(MakerOf(GraphBuilder()
                             .Input("x")
                             .Input("y", {{64}})
                             .Op("big", "inc", {"y"}, {{{64}, "float32", 7}})
                             .Op("end", "copy", {"big"}, {{{64}}})
                             .Op("f", "faulty", {"x"}, {{{4}, "float32", 7}})
                             .Head("f")
                             .Head("end"),
                         WithKernels({{"faulty", kernel}}))),
      ElementsAre("overrun: node 4 (f) wrote 1 byte past its output 0 "
                  "(first at byte 16)"));
}

TEST(SanitizeTest, WriteToAnInputIsFoundWhereverItComesFrom) {
  const FloatKernel kernel = [](FloatPointers t) {
    CopyFour(t[0], t[1]);
    static_cast<volatile float*>(t[0])[2] = 100;
  };
  const auto line = [](const char* node) {
    return fmt::format(
        "input-written: {} wrote 4 bytes to its input 0, which it may only "
        "read (first at byte 8)",
        node);
  };
  EXPECT_THAT(FindingsIn(ThreeNodes(kernel)), ElementsAre(line("node 2 (f)")));
  const GraphBuilder graph =
      GraphBuilder().Input("x").Op("f", "faulty", {"x"}).Head("f");
  const Ref<Library> library = WithKernels({{"faulty", kernel}});
  EXPECT_THAT(FindingsIn(MakerOf(graph, library)),
              ElementsAre(line("node 1 (f)")));
  EXPECT_THAT(
      FindingsIn([&](DebugExecutor::DebugOptions options) {
        auto executor = DebugExecutor::Create(graph.Build(), library, options);
        EXPECT_THAT((*executor)->SetParam("x", *Floats({1, 2, 3, 4})), IsOk());
        return executor;
      }),
      ElementsAre(line("node 1 (f)")));
}

TEST(SanitizeTest, WriteToTheCallersOwnMemoryIsFound) {
  const auto make = [&](DebugExecutor::DebugOptions options) {
    auto executor = DebugExecutor::Create(
        GraphBuilder().Input("x").Op("f", "faulty", {"x"}).Head("f").Build(),
        WithKernels({{"faulty",
                      [](FloatPointers t) {
                        CopyFour(t[0], t[1]);
                        t[0][2] = 100;
                      }}}),
        options);
    EXPECT_THAT((*executor)->SetInputZeroCopy(0, Floats({1, 2, 3, 4})), IsOk());
    return executor;
  };
  EXPECT_THAT(FindingsIn(make),
              ElementsAre("input-written: node 1 (f) wrote to its input 0, "
                          "which it may only read"));
}

TEST(SanitizeTest, EntryThatIsOverwrittenTooEarlyIsReportedAtItsReader) {
  EXPECT_THAT(
      FindingsIn(MakerOf(GraphBuilder()
                             .Input("x")
                             .Op("a", "inc", {"x"}, {{{4}, "float32", 7}})
                             .Op("b", "copy", {"x"}, {{{4}, "float32", 7}})
                             .Op("c", "add", {"a", "b"})
                             .Head("c"),
                         TestKernels())),
      ElementsAre("overwritten: node 3 (c) reads entry a:0 of node 1, which "
                  "node 2 overwrote; both are in storage 7"));
}

TEST(SanitizeTest, OutputThatIsOverwrittenIsReportedAtTheWriter) {
  EXPECT_THAT(
      FindingsIn(MakerOf(GraphBuilder()
                             .Input("x")
                             .Op("a", "inc", {"x"}, {{{4}, "float32", 7}})
                             .Op("b", "copy", {"x"}, {{{4}, "float32", 7}})
                             .Head("a")
                             .Head("b"),
                         TestKernels())),
      ElementsAre("overwritten: node 2 (b) overwrote entry a:0 of node 1, "
                  "which is the graph's output 0; both are in storage 7"));
}

TEST(SanitizeTest, InputThatASecondRunWouldMissIsReported) {
  EXPECT_THAT(
      FindingsIn(MakerOf(GraphBuilder()
                             .Input("x", {{4}, "float32", 7})
                             .Op("a", "inc", {"x"})
                             .Op("b", "inc", {"a"}, {{{4}, "float32", 7}})
                             .Head("b"),
                         TestKernels())),
      ElementsAre("overwritten: node 2 (b) writes its output 0 over the "
                  "graph's input x; both are in storage 7, and a second run "
                  "reads it"));
}

TEST(SanitizeTest, SlotSmallerThanItsEntryIsReportedAtTheMaker) {
  const GraphBuilder graph = AddThenRelu();
  StoragePlan plan = PlanStorage(graph.Build(), kDLCPU).value();
  plan.slots[2].bytes = 8;
  EXPECT_THAT(FindingsIn(MakerOf(graph, TestKernels(), plan)),
              ElementsAre("undersized: node 2 (add0) makes its output 0 of 16 "
                          "bytes in storage 2, which has 8"));
}

TEST(SanitizeTest, StaleReadAndWriteAreFound) {
  float* kept = nullptr;
  const auto sanitized = [&](bool writes) {
    const Ref<Library> library =
        WithKernels({{"keep",
                      [&](FloatPointers t) {
                        kept = t[0];
                        CopyFour(t[0], t[1]);
                      }},
                     {"stale", [&, writes](FloatPointers t) {
                        CopyFour(t[0], t[1]);
                        auto* volatile old = kept;
                        if (writes) {
                          static_cast<volatile float*>(old)[1] = 5;
                        } else {
                          t[1][0] += 0 * static_cast<volatile float*>(old)[1];
                        }
                      }}});
    return FindingsIn(MakerOf(GraphBuilder()
                                  .Input("x")
                                  .Op("a", "inc", {"x"})
                                  .Op("k", "keep", {"a"})
                                  .Op("s", "stale", {"k"})
                                  .Head("s"),
                              library));
  };
  EXPECT_THAT(sanitized(false),
              ElementsAre("stray-read: node 3 (s) read entry a:0 of node 1, "
                          "which is none of its arguments (first at byte 4)"));
  EXPECT_THAT(sanitized(true),
              ElementsAre("stray-write: node 3 (s) wrote 4 bytes to entry a:0 "
                          "of node 1, which is none of its arguments (first at "
                          "byte 4)"));
}

TEST(SanitizeTest, ReadInAGuardPageIsFound) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                t[1][0] += 0 * static_cast<volatile float*>(t[0])[1000];
              })),
              ElementsAre("wild: node 2 (f) read past its input 0 (first at "
                          "byte 4000)"));
}

TEST(SanitizeTest, ResultOverUninitialisedMemoryIsFound) {
  EXPECT_THAT(
      FindingsIn(ThreeNodes([](FloatPointers t) { t[1][0] = t[0][0]; })),
      ElementsAre(HasSubstr("uninitialised: node 2 (f): its output 0 "
                            "depends on what lay in memory before")));
}

TEST(SanitizeTest, ReadPastAnInputThatMattersIsFound) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                t[1][3] = static_cast<volatile float*>(t[0])[4];
              })),
              ElementsAre(HasSubstr("uninitialised: node 2 (f): its output 0 "
                                    "depends on what lay in memory before")));
}

TEST(SanitizeTest, KernelThatCannotWorkInPlaceIsFound) {
  const auto in_place = [](const FloatKernel& kernel) {
    return FindingsIn(
        MakerOf(GraphBuilder()
                    .Input("x")
                    .Op("a", "inc", {"x"}, {{{4}, "float32", 7}})
                    .Op("f", "faulty", {"a"}, {{{4}, "float32", 7}})
                    .Head("f"),
                WithKernels({{"faulty", kernel}})));
  };
  EXPECT_THAT(in_place([](FloatPointers t) {
                for (int i = 0; i < 4; ++i) t[1][i] = 2 * t[0][i];
              }),
              IsEmpty());
  EXPECT_THAT(in_place([](FloatPointers t) {
                for (int i = 0; i < 4; ++i) t[1][i] = t[0][3 - i];
              }),
              ElementsAre(HasSubstr("plan-matters: node 2 (f): its output 0 "
                                    "depends on the memory plan")));
}

TEST(SanitizeTest, KernelThatIsNeverTheSameIsToldApart) {
  EXPECT_THAT(
      FindingsIn(MakerOf(
          GraphBuilder().Input("x").Op("c", "count", {"x"}, {{{1}}}).Head("c"),
          TestKernels())),
      testing::Each(HasSubstr("unsteady: node 1 (c): its output 0 is "
                              "another in a second run of the same")));
}

TEST(SanitizeTest, WorkerThreadsAreWatchedToo) {
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                const auto task = [&](int id, TaskGroup&) {
                  t[1][id] = t[0][id];
                  if (id == 3) WriteByte(t[1], 16, 1);
                  if (id > 0) static_cast<volatile float*>(t[0])[id] = 0.1f;
                  return absl::OkStatus();
                };
                EXPECT_THAT(ParallelRun(4, task), IsOk());
              })),
              ElementsAre("input-written: node 2 (f) wrote 12 bytes to its "
                          "input 0, which it may only read (first at byte 4)",
                          "overrun: node 2 (f) wrote 1 byte past its output 0 "
                          "(first at byte 16)"));
}

TEST(SanitizeTest, ManyFaultsOfOneNodeAreBounded) {
  constexpr int64_t kFloats = 1 << 20;
  const FloatKernel kernel = [](FloatPointers t) {
    for (int64_t i = 0; i < kFloats; ++i) t[0][i] = t[1][i] = 0;
  };
  const auto report =
      Sanitize(MakerOf(GraphBuilder()
                           .Input("x", {{kFloats}})
                           .Op("f", "faulty", {"x"}, {{{kFloats}}})
                           .Head("f"),
                       WithKernels({{"faulty", kernel}})),
               {});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].kind.name, "input-written");
  EXPECT_TRUE(report->had_more_findings);
}

TEST(SanitizeTest, FailingFunctionEndsItWithTheFirstFaultBefore) {
  const auto make = MakerOf(GraphBuilder()
                                .Input("x")
                                .Op("f", "faulty", {"x"})
                                .Op("bad", "fail", {"f"})
                                .Head("bad"),
                            WithKernels({{"faulty", [](FloatPointers t) {
                                            CopyFour(t[0], t[1]);
                                            WriteByte(t[1], 16, 1);
                                          }}}));
  EXPECT_THAT(Sanitize(make, {}),
              FailsWith(StatusCode::kInternal,
                        AllOf(HasSubstr("this kernel always fails"),
                              HasSubstr("before that: node 1 (f) wrote"))));
}

TEST(SanitizeTest, OnlyOneCanGoOnAtATime) {
  const ExecutorMaker inner = MakerOf(AddThenRelu(), TestKernels());
  const auto outer = [&](DebugExecutor::DebugOptions options) {
    EXPECT_THAT(Sanitize(inner, {}), FailsWith(StatusCode::kFailedPrecondition,
                                               HasSubstr("one at a time")));
    return inner(std::move(options));
  };
  EXPECT_THAT(Sanitize(outer, {}), IsOk());
  EXPECT_THAT(Sanitize(inner, {}), IsOk());
}

// A page of the host's, out of reach, and a handler that opens it.
class HostPage {
 public:
  HostPage() {
    bytes = static_cast<uint8_t*>(
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction action {};
    action.sa_sigaction = &Open;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &previous_);
  }
  ~HostPage() {
    sigaction(SIGSEGV, &previous_, nullptr);
    munmap(bytes, kBytes);
  }
  static void Open(int, siginfo_t* info, void*) {
    ++opened;
    if (info->si_addr != bytes) _exit(99);
    mprotect(bytes, kBytes, PROT_READ | PROT_WRITE);
  }

  static constexpr size_t kBytes = 4096;
  static inline uint8_t* bytes = nullptr;
  static inline int opened = 0;

 private:
  struct sigaction previous_ {};
};

TEST(SanitizeTest, FaultsOfOthersGoToTheirHandlerWhichIsRestored) {
  const HostPage page;
  EXPECT_THAT(FindingsIn(ThreeNodes([](FloatPointers t) {
                CopyFour(t[0], t[1]);
                WriteByte(HostPage::bytes, 0, 1);
                WriteByte(t[1], 16, 1);
              })),
              testing::SizeIs(1));
  EXPECT_EQ(HostPage::opened, 1);
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  EXPECT_EQ(now.sa_sigaction, &HostPage::Open);
}

TEST(SanitizeDeathTest, CrashElsewhereStillEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto make = ThreeNodes([](FloatPointers) { *Address(16) = 1; });
  EXPECT_DEATH(Sanitize(make, {}).IgnoreError(), "");
}

TEST(PrivatePlanTest, EveryFunctionOutputHasAStorageOfItsOwn) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 0})
                          .Op("a", "inc", {"x"}, {{{4}, "float32", 1}})
                          .Op("n", "__nop", {"a"}, {{{2, 2}, "float32", 1}})
                          .Op("b", "inc", {"n"}, {{{2, 2}, "float32", 2}})
                          .Op("c", "inc", {"b"}, {{{2}, "float32", 1}})
                          .Head("c")
                          .Build();
  const StoragePlan plan =
      PrivatePlan(GraphIndex(graph, PlanStorage(graph, kDLCPU).value()));
  EXPECT_THAT(plan.slot_of, ElementsAre(0, 1, 1, 2, 3));
  EXPECT_THAT(plan.base_of, ElementsAre(0, 1, 1, 3, 4));
  ASSERT_EQ(plan.slots.size(), 4u);
  EXPECT_EQ(plan.slots[1].bytes, 16u);
  EXPECT_EQ(plan.slots[3].bytes, 8u);
}

class SanitizeFixtureTest : public testing::TestWithParam<std::string> {};

TEST_P(SanitizeFixtureTest, NothingIsReportedAndOutputsAreTvms) {
  const std::string& folder = GetParam();
  const auto report = Sanitize(MakerOfFixture(folder), {});
  ASSERT_THAT(report, IsOk());
  for (const Finding& f : report->findings) ADD_FAILURE() << f.ToString();
  const auto expected = OpenParams(folder + "/outputs.params");
  ASSERT_THAT(expected, IsOk());
  ASSERT_EQ(report->outputs.size(), expected->tensors.size());
  for (size_t i = 0; i < report->outputs.size(); ++i) {
    const NDArray& actual = report->outputs[i].tensor;
    const NDArray* wanted = expected->Find("output_" + std::to_string(i));
    ASSERT_NE(wanted, nullptr);
    ASSERT_EQ(actual.bytes(), wanted->bytes());
    EXPECT_EQ(std::memcmp(actual.data(), wanted->data(), wanted->bytes()), 0);
  }
}

std::vector<std::string> RunnableFixtures() {
  std::vector<std::string> folders = FixtureFolders("tvm-0.8");
  for (const std::string& folder : FixtureFolders("tvm-0.14")) {
    folders.push_back(folder);
  }
  return folders;
}

INSTANTIATE_TEST_SUITE_P(Tvm, SanitizeFixtureTest,
                         testing::ValuesIn(RunnableFixtures()),
                         [](const auto& info) {
                           return FixtureName(info.param);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SanitizeFixtureTest);

}  // namespace
}  // namespace nodewise
