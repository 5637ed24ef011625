#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <thread>

#include "nodewise/profile/profiler.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes to each of so many fresh pages.
void TouchPages(size_t pages) {
  const size_t page = sysconf(_SC_PAGESIZE);
  void* const memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, pages * page, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < pages; ++i) {
    static_cast<volatile char*>(memory)[i * page] = 1;
  }
  munmap(memory, pages * page);
}

// A collector of page faults that has been started, or null where the system
// does not allow it.
std::unique_ptr<Collector> StartedPageFaults() {
  auto collector = PerfCollector({"page-faults"});
  if (!collector.ok()) {
    EXPECT_EQ(collector.status().code(), StatusCode::kUnavailable);
    return nullptr;
  }
  EXPECT_THAT((*collector)->Start(), IsOk());
  return *std::move(collector);
}

double ReadOne(Collector& collector) {
  double value = -1;
  collector.Read(absl::MakeSpan(&value, 1));
  return value;
}

#define SKIP_WITHOUT(collector) \
  if ((collector) == nullptr) GTEST_SKIP() << "no perf events on this system"

TEST(PerfCollectorTest, CountsWhatHappensBetweenTwoReadings) {
  const auto collector = StartedPageFaults();
  SKIP_WITHOUT(collector);
  const double before = ReadOne(*collector);
  TouchPages(100);
  const double during = ReadOne(*collector) - before;
  EXPECT_GE(during, 100);
  EXPECT_LE(during, 10000);
}

TEST(PerfCollectorTest, CountsThreadsThatWereThereBefore) {
  std::atomic<int> stage = 0;
  std::thread worker([&] {
    stage.wait(0);
    TouchPages(100);
    stage = 2;
    stage.notify_all();
  });
  const auto collector = StartedPageFaults();
  const double before = collector == nullptr ? 0 : ReadOne(*collector);
  stage = 1;
  stage.notify_all();
  stage.wait(1);
  worker.join();
  SKIP_WITHOUT(collector);
  EXPECT_GE(ReadOne(*collector) - before, 100);
}

TEST(PerfCollectorTest, CountsThreadsThatComeLater) {
  const auto collector = StartedPageFaults();
  SKIP_WITHOUT(collector);
  const double before = ReadOne(*collector);
  std::thread([] { TouchPages(100); }).join();
  EXPECT_GE(ReadOne(*collector) - before, 100);
}

TEST(PerfCollectorTest, StoppedItReadsNothingAndStartsAgainFromNothing) {
  const auto collector = StartedPageFaults();
  SKIP_WITHOUT(collector);
  TouchPages(100);
  collector->Stop();
  EXPECT_EQ(ReadOne(*collector), 0);
  ASSERT_THAT(collector->Start(), IsOk());
  EXPECT_LT(ReadOne(*collector), 100);
}

TEST(PerfCollectorTest, TotalsNeverFall) {
  auto collector = PerfCollector({"page-faults", "task-clock"});
  if (!collector.ok()) GTEST_SKIP() << collector.status().ToString();
  ASSERT_THAT((*collector)->Start(), IsOk());
  double last[2] = {0, 0};
  for (int i = 0; i < 200; ++i) {
    double now[2];
    (*collector)->Read(absl::MakeSpan(now));
    EXPECT_GE(now[0], last[0]);
    EXPECT_GT(now[1], last[1]);
    last[0] = now[0];
    last[1] = now[1];
  }
}

TEST(PerfCollectorTest, NamesCarryTheirUnits) {
  const auto collector = PerfCollector({"task-clock", "page-faults"});
  if (!collector.ok()) GTEST_SKIP() << collector.status().ToString();
  EXPECT_THAT((*collector)->Names(),
              ElementsAre("task-clock (ns)", "page-faults"));
}

// A machine may count an event or not; if not, there must be a reason.
TEST(PerfCollectorTest, EveryEventIsCountedOrSaysWhyNot) {
  for (const std::string& name : PerfEventNames()) {
    const auto collector = PerfCollector({name});
    if (collector.ok()) {
      EXPECT_THAT((*collector)->Start(), IsOk()) << name;
      EXPECT_GE(ReadOne(**collector), 0) << name;
      continue;
    }
    EXPECT_THAT(
        collector,
        FailsWith(StatusCode::kUnavailable,
                  AllOf(HasSubstr("perf event " + name + ": perf_event_open "),
                        HasSubstr("/proc/sys/kernel/perf_event_paranoid is "),
                        HasSubstr("expected a counter ("))));
  }
}

TEST(PerfCollectorTest, UnknownNameGetsTheNearest) {
  EXPECT_THAT(PerfCollector({"page-faults", "cache-mises"}),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("perf event cache-mises: no such"),
                              HasSubstr("did you mean cache-misses?"))));
  EXPECT_THAT(PerfCollector({std::string(10240, 'x')}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("xxx: no")));
}

TEST(PerfCollectorTest, NoNameAndANameTwiceAreRefused) {
  EXPECT_THAT(PerfCollector({}), FailsWith(StatusCode::kInvalidArgument,
                                           HasSubstr("none was named")));
  EXPECT_THAT(PerfCollector({"cycles", "cycles"}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("perf event cycles: named twice")));
}

TEST(PerfEventNamesTest, HoldTheUsualOnes) {
  for (const char* name : {"cycles", "instructions", "cache-misses",
                           "branch-misses", "page-faults", "task-clock"}) {
    EXPECT_THAT(PerfEventNames(), Contains(name));
  }
}

// Lets the system refuse perf_event_open to this process from now on.
bool ForbidPerfEvents(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Returns the error in a separate process to which the system refuses them; ""
// if that cannot be arranged.
std::string RefusedWith(int error) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    if (ForbidPerfEvents(error)) {
      text = PerfCollector({"page-faults"}).status().ToString();
    }
    _exit(write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, n);
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(PerfCollectorTest, RefusalNamesTheEventTheErrorAndTheRemedy) {
  const std::string text = RefusedWith(EPERM);
  if (text.empty()) GTEST_SKIP() << "no seccomp filter on this system";
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("UNAVAILABLE"),
            HasSubstr("perf event page-faults: perf_event_open said Operation "
                      "not permitted (1), /proc/sys/kernel/"
                      "perf_event_paranoid is "),
            HasSubstr("CAP_PERFMON)")));
}

TEST(PerfCollectorTest, KernelWithoutPerfEventsIsSaid) {
  const std::string text = RefusedWith(ENOSYS);
  if (text.empty()) GTEST_SKIP() << "no seccomp filter on this system";
  EXPECT_THAT(text, HasSubstr("(the kernel is built without perf events"));
}

}  // namespace
}  // namespace nodewise
