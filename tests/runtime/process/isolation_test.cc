#include "nodewise/process/isolation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "nodewise/support/thread_pool.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/fixtures.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using FloatPointers = const std::vector<float*>&;
using Executor = std::unique_ptr<DebugExecutor>;

Executor Make(const ExecutorMaker& maker) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  return maker(std::move(options)).value();
}

// x -> a = inc -> f = `kernel` -> z = copy, and b = inc of a.
Executor FourNodes(const FloatKernel& kernel) {
  return Make(MakerOf(GraphBuilder()
                          .Input("x")
                          .Op("a", "inc", {"x"})
                          .Op("f", "faulty", {"a"})
                          .Op("z", "copy", {"f"})
                          .Op("b", "inc", {"a"})
                          .Head("z")
                          .Head("b"),
                      WithKernels({{"faulty", kernel}})));
}

// Runs it, expects node 2 to be the only one that fails and the rest to run on,
// and returns how it failed.
Finding FailureOf(const FloatKernel& kernel) {
  const Executor executor = FourNodes(kernel);
  const auto report = RunIsolated(executor.get(), {.time_limit_ms = 60'000});
  EXPECT_THAT(report, IsOk());
  if (!report.ok() || report->findings.size() != 1) {
    ADD_FAILURE() << "not one failure";
    return {};
  }
  EXPECT_EQ(report->nodes, 4u);
  EXPECT_EQ(report->findings[0].node()->node, NodeId{2});
  EXPECT_THAT(report->tainted, ElementsAre(NodeId{3}));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(3, 4, 5, 6));
  return report->findings[0];
}

bool HasChildren() {
  return waitpid(-1, nullptr, WNOHANG | __WALL) != -1 || errno != ECHILD;
}

// Uses up the stack. The optimiser must not remove the recursion.
volatile bool recurses = true;
int Recurse(int depth) {
  volatile char room[4096];
  room[depth % 4096] = 1;
  return (recurses ? Recurse(depth + 1) : 0) + room[(depth * 7) % 4096];
}

TEST(IsolationTest, SoundNetworkRunsAsItDoesInOneProcess) {
  const Executor executor =
      FourNodes([](FloatPointers t) { std::memcpy(t[1], t[0], 16); });
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_THAT(report->tainted, IsEmpty());
  EXPECT_EQ(report->nodes, 4u);
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  EXPECT_FALSE(HasChildren());
}

TEST(IsolationTest, CrashIsToldWithItsAddress) {
  const Finding failure = FailureOf([](FloatPointers) { *Address(16) = 1; });
  EXPECT_EQ(failure.kind.name, "crash");
  EXPECT_EQ(failure.Number("signal"), SIGSEGV);
  EXPECT_EQ(failure.Number("address"), 0x10);
  EXPECT_EQ(failure.ToString(),
            "node 2 (f): crashed with SIGSEGV at address 0x10");
  EXPECT_FALSE(HasChildren());
}

TEST(IsolationTest, EndlessLoopIsStopped) {
  // One node: on a busy machine a sound one may take longer than that too.
  const Executor executor = Make(
      MakerOf(GraphBuilder().Input("x").Op("f", "endless", {"x"}).Head("f"),
              WithKernels({{"endless", [](FloatPointers) {
                              for (volatile bool goes_on = true; goes_on;) {
                              }
                            }}})));
  const auto start = std::chrono::steady_clock::now();
  const auto report = RunIsolated(executor.get(), {.time_limit_ms = 200});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].kind.name, "timeout");
  EXPECT_EQ(report->findings[0].ToString(),
            "node 1 (f): had not returned after 200 ms and was stopped");
  EXPECT_EQ(report->findings[0].Number("time_limit_ms"), 200);
  EXPECT_FALSE(HasChildren());
}

TEST(IsolationTest, ErrorOfTheFunctionIsItsMessage) {
  const Executor executor = Make(MakerOf(GraphBuilder()
                                             .Input("x")
                                             .Op("f", "fail", {"x"})
                                             .Op("z", "copy", {"f"})
                                             .Head("z"),
                                         TestKernels()));
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].kind.name, "node-error");
  EXPECT_EQ(report->findings[0].ToString(),
            "node 1 (f): fail: this kernel always fails");
}

TEST(IsolationTest, FunctionThatEndsTheProcessIsTold) {
  for (const bool quietly : {false, true}) {
    const Finding failure = FailureOf([&](FloatPointers) {
      if (quietly) _exit(3);
      std::exit(3);
    });
    EXPECT_EQ(failure.kind.name, "exit");
    EXPECT_EQ(failure.Number("exit_status"), 3);
    EXPECT_EQ(failure.ToString(),
              "node 2 (f): ended the process with exit status 3");
  }
}

TEST(IsolationTest, AbortHasNoAddress) {
  const Finding failure = FailureOf([](FloatPointers) { std::abort(); });
  EXPECT_EQ(failure.kind.name, "crash");
  EXPECT_EQ(failure.Number("signal"), SIGABRT);
  EXPECT_EQ(failure.Number("address"), std::nullopt);
  EXPECT_EQ(failure.ToString(), "node 2 (f): crashed with SIGABRT");
}

TEST(IsolationTest, KilledChildIsTold) {
  const Finding failure =
      FailureOf([](FloatPointers) { kill(getpid(), SIGKILL); });
  EXPECT_EQ(failure.Number("signal"), SIGKILL);
}

TEST(IsolationTest, FullStackIsToldWithItsAddress) {
  const Finding failure =
      FailureOf([](FloatPointers t) { t[1][0] += Recurse(1); });
  EXPECT_EQ(failure.kind.name, "crash");
  EXPECT_EQ(failure.Number("signal"), SIGSEGV);
  EXPECT_GT(failure.Number("address"), 0);
}

TEST(IsolationTest, CrashOfAWorkerIsToldWithItsAddress) {
  for (const bool fills_stack : {false, true}) {
    const Finding failure = FailureOf([&](FloatPointers t) {
      const auto task = [&](int id, TaskGroup&) {
        if (id == 1 && fills_stack) t[1][0] += Recurse(1);
        if (id == 1) *Address(16) = 1;
        return absl::OkStatus();
      };
      ParallelRun(2, task).IgnoreError();
    });
    EXPECT_EQ(failure.Number("signal"), SIGSEGV);
    if (!fills_stack) {
      EXPECT_EQ(failure.Number("address"), 0x10);
    }
  }
}

TEST(IsolationTest, FullStackOfAnyWorkerIsToldWithItsAddress) {
  const int last = NumThreads() + 2;
  const Finding failure = FailureOf([&](FloatPointers t) {
    ParallelRun(last + 1, [&](int id, TaskGroup&) {
      if (id == last) t[1][0] += Recurse(1);
      return absl::OkStatus();
    }).IgnoreError();
  });
  EXPECT_EQ(failure.Number("signal"), SIGSEGV);
  EXPECT_GT(failure.Number("address"), 0);
}

TEST(IsolationTest, WorkersThatCrashTogetherAreToldWithAnAddress) {
  for (int i = 0; i < 50; ++i) {
    const Finding failure = FailureOf([](FloatPointers) {
      ParallelRun(4, [](int, TaskGroup&) {
        *Address(16) = 1;
        return absl::OkStatus();
      }).IgnoreError();
    });
    ASSERT_EQ(failure.Number("signal"), SIGSEGV);
    ASSERT_EQ(failure.Number("address"), 0x10);
  }
}

TEST(IsolationTest, StackIsAsLargeAsTheProcessMayHave) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  constexpr rlim_t kAllowed = 64 << 20;
  rlimit more = before;
  more.rlim_cur = std::min<rlim_t>(kAllowed, before.rlim_max);
  if (more.rlim_cur < kAllowed) GTEST_SKIP() << "no more stack is allowed";
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &more), 0);
  const Executor executor = FourNodes([](FloatPointers t) {
    volatile char room[20 << 20];
    for (size_t i = 0; i < sizeof(room); i += 4096) room[i] = 1;
    t[1][0] = static_cast<float>(room[0]);
  });
  const auto report = RunIsolated(executor.get(), {});
  EXPECT_EQ(setrlimit(RLIMIT_STACK, &before), 0);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
}

TEST(IsolationTest, AllThatComesFromAFailedNodeIsTainted) {
  const Executor executor =
      Make(MakerOf(GraphBuilder()
                       .Input("x")
                       .Op("bad", "fail", {"x"}, {{{4}, "float32", 7}})
                       .Op("nop", "__nop", {"bad"}, {{{2, 2}, "float32", 7}})
                       .Op("near", "copy", {"nop"}, {{{2, 2}}})
                       .Op("good", "inc", {"x"})
                       .Op("bad2", "fail", {"near"})
                       .Op("far", "add", {"good", "bad2"})
                       .Head("far"),
                   TestKernels()));
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->findings.size(), 2u);
  EXPECT_EQ(report->nodes, 5u);
  EXPECT_THAT(report->tainted, ElementsAre(NodeId{3}, NodeId{5}, NodeId{6}));
}

TEST(IsolationTest, OutputsOfAFailedNodeKeepTheirBytes) {
  const Executor executor = FourNodes([](FloatPointers t) {
    t[1][0] = 77;
    std::abort();
  });
  for (float& value : absl::MakeSpan(
           static_cast<float*>(DataOf(*executor->OutputsOf(NodeId{2})[0])),
           4)) {
    value = 5;
  }
  ASSERT_THAT(RunIsolated(executor.get(), {}), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(5, 5, 5, 5));
}

TEST(IsolationTest, ParallelKernelRuns) {
  const Ref<Library> library = LibraryOf(LoadTestLibrary("parallel_llvm"));
  const Executor executor =
      Make(MakerOf(GraphBuilder()
                       .Input("x")
                       .Op("s", "square", {"x"})
                       .Op("n", "add_neighbours_square", {"s"})
                       .Head("s")
                       .Head("n"),
                   library));
  // Our pool has workers here, which the children do not have.
  ASSERT_THAT(executor->Run(), IsOk());
  const std::vector<float> expected = ValuesOf(*executor->GetOutput(1));
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  for (const Finding& f : report->findings) ADD_FAILURE() << f.ToString();
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 4, 9, 16));
  EXPECT_EQ(ValuesOf(*executor->GetOutput(1)), expected);
}

TEST(IsolationTest, OpenMpKernelRunsAlsoWhereOpenMpRanBefore) {
  if (!std::filesystem::exists(LibraryPath("openmp"))) {
    GTEST_SKIP() << "no OpenMP with this compiler";
  }
  const Executor executor = Make(MakerOf(
      GraphBuilder().Input("x").Op("s", "openmp_square", {"x"}).Head("s"),
      LibraryOf(LoadTestLibrary("openmp"))));
  for (const bool ran_before : {false, true}) {
    if (ran_before) {
      ASSERT_THAT(executor->Run(), IsOk());
    }
    const auto report = RunIsolated(executor.get(), {});
    ASSERT_THAT(report, IsOk());
    for (const Finding& f : report->findings) ADD_FAILURE() << f.ToString();
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 4, 9, 16));
  }
}

TEST(IsolationTest, NeitherExitHandlersRunNorIsBufferedOutputWrittenTwice) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto print_and_run = [] {
    // The death test reads stderr.
    dup2(STDERR_FILENO, STDOUT_FILENO);
    setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
    std::atexit([] { printf("<handler>"); });
    printf("<start>");
    FailureOf([](FloatPointers) {
      printf("<kernel>");
      std::exit(3);
    });
    FailureOf([](FloatPointers) { std::abort(); });
    std::exit(0);
  };
  EXPECT_EXIT(print_and_run(), testing::ExitedWithCode(0),
              AllOf(HasSubstr("<start><handler>"),
                    Not(testing::ContainsRegex("<start>.*<start>")),
                    Not(testing::ContainsRegex("<handler>.*<handler>"))));
}

class SigchldSetting {
 public:
  explicit SigchldSetting(void (*handler)(int), int flags = 0) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGCHLD, &action, &previous_);
  }
  ~SigchldSetting() { sigaction(SIGCHLD, &previous_, nullptr); }

 private:
  struct sigaction previous_ {};
};

TEST(IsolationTest, WorksWhereSigchldIsIgnoredOrBlocked) {
  {
    const SigchldSetting setting(SIG_IGN);
    EXPECT_EQ(FailureOf([](FloatPointers) { _exit(4); }).Number("exit_status"),
              4);
    struct sigaction now {};
    sigaction(SIGCHLD, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
  }
  {
    const SigchldSetting setting(SIG_DFL, SA_NOCLDWAIT);
    EXPECT_EQ(FailureOf([](FloatPointers) { _exit(5); }).Number("exit_status"),
              5);
  }
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigaddset(&blocked, SIGSEGV);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Finding failure = FailureOf([](FloatPointers) { *Address(16) = 1; });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(failure.Number("address"), 0x10);
}

// Whichever ends first must not have the other's children thrown away.
TEST(IsolationTest, TwoAtOnceWorkWhereSigchldIsIgnored) {
  const SigchldSetting setting(SIG_IGN);
  const auto ends = [](int pause_ms) {
    return [pause_ms](FloatPointers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      _exit(3);
    };
  };
  Finding first;
  std::thread other([&] { first = FailureOf(ends(1)); });
  const Finding second = FailureOf(ends(300));
  other.join();
  EXPECT_EQ(first.Number("exit_status"), 3);
  EXPECT_EQ(second.kind.name, "exit");
  EXPECT_EQ(second.Number("exit_status"), 3);
}

TEST(IsolationTest, HostThatCollectsAllChildrenDoesNotHangIt) {
  const SigchldSetting setting(
      [](int) {
        const int saved = errno;
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        errno = saved;
      },
      SA_RESTART);
  const Finding failure = FailureOf([](FloatPointers) { std::abort(); });
  EXPECT_EQ(failure.Number("signal"), SIGABRT);
}

TEST(IsolationTest, ProcessesThatTheFunctionStartsEndWithIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Executor executor = FourNodes([](FloatPointers) {
    if (fork() != 0) return;
    for (;;) pause();
  });
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  // No other process holds the other end any more.
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST(IsolationTest, TimeLimitIsFromAMillisecondToADay) {
  const Executor executor = FourNodes([](FloatPointers) {});
  for (const int64_t limit : {int64_t{0}, kMostTimeLimitMs + 1, INT64_MAX}) {
    const auto refusal = FailsWith(StatusCode::kInvalidArgument,
                                   HasSubstr("ms, expected 1 to 86400000"));
    EXPECT_THAT(RunIsolated(executor.get(), {.time_limit_ms = limit}), refusal);
    EXPECT_THAT(RunInChild(executor.get(), {.time_limit_ms = limit}), refusal);
  }
  EXPECT_THAT(RunIsolated(executor.get(), {.time_limit_ms = kMostTimeLimitMs}),
              IsOk());
}

TEST(IsolationTest, NextRunIsAnOrdinaryOne) {
  int calls = 0;
  const Executor executor = FourNodes([&](FloatPointers) { ++calls; });
  ASSERT_THAT(RunIsolated(executor.get(), {}), IsOk());
  EXPECT_EQ(calls, 0);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(calls, 1);
}

class IsolationFixtureTest : public testing::TestWithParam<std::string> {};

TEST_P(IsolationFixtureTest, OutputsAreTvmsBitForBit) {
  const std::string& folder = GetParam();
  const Executor executor = Make(MakerOfFixture(folder));
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  for (const Finding& f : report->findings) ADD_FAILURE() << f.ToString();
  const auto expected = OpenParams(folder + "/outputs.params");
  ASSERT_THAT(expected, IsOk());
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    const NDArray actual = executor->GetOutput(i).value();
    const NDArray* wanted = expected->Find("output_" + std::to_string(i));
    ASSERT_NE(wanted, nullptr);
    ASSERT_EQ(actual.bytes(), wanted->bytes());
    EXPECT_EQ(std::memcmp(actual.data(), wanted->data(), wanted->bytes()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Tvm, IsolationFixtureTest,
                         testing::ValuesIn(FixtureFolders("tvm-0.14")),
                         [](const auto& info) {
                           return FixtureName(info.param);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IsolationFixtureTest);

TEST(IsolationTest, CallersInvokerIsThereAgainAfterwards) {
  const Executor executor = FourNodes([](FloatPointers) {});
  int calls = 0;
  executor->SetInvoker([&](NodeId, absl::FunctionRef<absl::Status()> call) {
    ++calls;
    return call();
  });
  ASSERT_THAT(RunIsolated(executor.get(), {}), IsOk());
  EXPECT_EQ(calls, 0);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(calls, 4);
}

TEST(IsolationTest, PatchKeepsWhatReadsItFromBeingTainted) {
  const Executor executor =
      Make(MakerOf(GraphBuilder()
                       .Input("x")
                       .Op("f", "fail", {"x"})
                       .Op("patched", "copy", {"f"})
                       .Op("reshaped", "__nop", {"patched"})
                       .Op("z", "copy", {"reshaped"})
                       .Op("tainted", "copy", {"f"})
                       .Head("z")
                       .Head("tainted"),
                   TestKernels()));
  ASSERT_THAT(executor->Patch(EntryId{2}, *Floats({9, 9, 9, 9})), IsOk());
  const auto report = RunIsolated(executor.get(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->findings.size(), 1u);
  EXPECT_THAT(report->tainted, ElementsAre(NodeId{5}));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(9, 9, 9, 9));
}

}  // namespace
}  // namespace nodewise
