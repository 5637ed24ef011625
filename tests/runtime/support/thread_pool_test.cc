#include "nodewise/support/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cfenv>
#include <climits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nodewise/support/exceptions.h"

namespace nodewise {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
#define NODEWISE_TEST_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NODEWISE_TEST_UNDER_TSAN 1
#endif
#endif

// Each test starts with four threads, no matter how many the machine has.
class ThreadPoolTest : public ::testing::Test {
 protected:
  ThreadPoolTest() { SetNumThreads(4); }
  ~ThreadPoolTest() override { SetNumThreads(0); }
};

// The text, not the view: gtest prints it and keeps it.
std::string Message(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

struct ThreadCountCase {
  const char* tvm;
  const char* omp;
  int cores;
  int expected;
};

TEST(ThreadCountTest, FirstPositiveIntegerWinsElseTheCores) {
  const ThreadCountCase cases[] = {
      {nullptr, nullptr, 6, 6},
      {"3", nullptr, 6, 3},
      {nullptr, "2", 6, 2},
      {"3", "2", 6, 3},
      {"0", "2", 6, 2},
      {"-1", "2", 6, 2},
      {"", "2", 6, 2},
      {"four", "2", 6, 2},
      {"3x", "2", 6, 2},
      {"1.5", "2", 6, 2},
      {"x", "y", 6, 6},
      {nullptr, "4,2", 6, 6},
      {nullptr, nullptr, 0, 1},
      {"16", nullptr, 2, 16},
      {"99999999999", nullptr, 6, 6},
      {"5000", nullptr, 6, kMaxTasks},
  };
  for (const ThreadCountCase& c : cases) {
    EXPECT_EQ(ThreadCountFrom(c.tvm, c.omp, c.cores), c.expected)
        << (c.tvm ? c.tvm : "unset") << " / " << (c.omp ? c.omp : "unset");
  }
}

TEST(ThreadCountTest, OverrideHoldsUntilZeroEndsIt) {
  const int by_default = NumThreads();
  EXPECT_GE(by_default, 1);
  SetNumThreads(7);
  EXPECT_EQ(NumThreads(), 7);
  SetNumThreads(INT_MAX);
  EXPECT_EQ(NumThreads(), kMaxTasks);
  SetNumThreads(0);
  EXPECT_EQ(NumThreads(), by_default);
}

TEST_F(ThreadPoolTest, EachIdRunsOnceAndTheFirstOnTheCaller) {
  std::array<int, 5> runs{};
  std::array<std::thread::id, 5> threads;
  const absl::Status status = ParallelRun(5, [&](int id, TaskGroup& group) {
    EXPECT_EQ(group.num_tasks(), 5);
    threads[id] = std::this_thread::get_id();
    ++runs[id];
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(runs, Each(1));
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 5);
}

TEST_F(ThreadPoolTest, WithoutACountThereAreNumThreadsTasks) {
  for (const int count : {1, 2, 4, 3}) {
    SetNumThreads(count);
    std::atomic<int> runs = 0;
    ASSERT_TRUE(ParallelRun(0, [&](int, TaskGroup& group) {
                  EXPECT_EQ(group.num_tasks(), count);
                  ++runs;
                  return absl::OkStatus();
                }).ok());
    EXPECT_EQ(runs, count);
  }
}

TEST_F(ThreadPoolTest, WhatTasksWroteIsVisibleAfterTheJoin) {
  std::array<int, 4> values{};  // Not atomic: ThreadSanitizer looks on.
  for (int round = 1; round <= 200; ++round) {
    ASSERT_TRUE(ParallelRun(4, [&](int id, TaskGroup&) {
                  values[id] += id;
                  return absl::OkStatus();
                }).ok());
    ASSERT_EQ(values[1] + values[2] + values[3], 6 * round);
  }
}

TEST_F(ThreadPoolTest, SameTaskKeepsItsWorkerFromLaunchToLaunch) {
  std::array<std::thread::id, 4> first;
  std::array<std::thread::id, 4> second;
  for (auto* threads : {&first, &second}) {
    ASSERT_TRUE(ParallelRun(4, [&](int id, TaskGroup&) {
                  (*threads)[id] = std::this_thread::get_id();
                  return absl::OkStatus();
                }).ok());
  }
  EXPECT_EQ(first, second);
}

TEST_F(ThreadPoolTest, NestedLaunchRunsOnTheOneThreadThatIsLeft) {
  std::atomic<int> runs = 0;
  const auto inner = [&](int, TaskGroup& group) {
    EXPECT_EQ(group.num_tasks(), 1);
    ++runs;
    return absl::OkStatus();
  };
  const auto outer = [&](int, TaskGroup& group) {
    EXPECT_EQ(group.num_tasks(), 4);
    absl::Status status = ParallelRun(0, inner);
    group.Barrier();  // No worker gets idle before all have nested.
    return status;
  };
  EXPECT_TRUE(ParallelRun(0, outer).ok());
  EXPECT_EQ(runs, 4);
}

TEST_F(ThreadPoolTest, NestedLaunchWithACountGetsAllItsTasks) {
  std::atomic<int> runs = 0;
  const auto inner = [&](int, TaskGroup& group) {
    ++runs;
    return group.Barrier() ? absl::OkStatus() : absl::InternalError("broken");
  };
  const auto outer = [&](int, TaskGroup&) { return ParallelRun(3, inner); };
  const absl::Status status = ParallelRun(4, outer);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(runs, 12);
}

// Each task sums a part, so another number of tasks would be another sum.
TEST_F(ThreadPoolTest, LaunchHasAsManyTasksBesideOtherLaunches) {
  std::barrier together(8);
  std::vector<std::thread> hosts;
  hosts.reserve(8);
  for (int i = 0; i < 8; ++i) {
    hosts.emplace_back([&] {
      for (int n = 0; n < 20; ++n) {
        together.arrive_and_wait();
        const auto task = [&](int id, TaskGroup& group) {
          EXPECT_EQ(group.num_tasks(), 4);
          if (id == 0) together.arrive_and_wait();  // All hold their workers.
          return absl::OkStatus();
        };
        EXPECT_TRUE(ParallelRun(0, task).ok());
      }
    });
  }
  for (std::thread& host : hosts) host.join();
}

TEST_F(ThreadPoolTest, NestedLaunchesDivideTheThreadsEvenly) {
  SetNumThreads(9);
  std::atomic<int> runs = 0;
  const auto inner = [&](int, TaskGroup& group) {
    EXPECT_EQ(group.num_tasks(), 4);
    ++runs;
    return absl::OkStatus();
  };
  const auto outer = [&](int, TaskGroup&) { return ParallelRun(0, inner); };
  EXPECT_TRUE(ParallelRun(2, outer).ok());
  EXPECT_EQ(runs, 8);
}

TEST_F(ThreadPoolTest, ErrorsOfAllTasksAreJoinedInOrder) {
  const absl::Status status = ParallelRun(4, [](int id, TaskGroup&) {
    if (id == 1) return absl::NotFoundError("no kernel");
    if (id == 3) return absl::DataLossError("bad bytes");
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "task 1 of 4: no kernel; task 3 of 4: bad bytes");
}

TEST_F(ThreadPoolTest, WhatTasksThrowHasNoPlaceOfAnEarlierException) {
  try {
    const WorkingOn node("conv1");
    throw 7;
  } catch (int) {
  }
  const absl::Status status = ParallelRun(
      1, [](int, TaskGroup&) -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(Message(status).find("conv1"), std::string::npos) << status;
}

TEST_F(ThreadPoolTest, WhatTasksThrowIsTheirError) {
  const absl::Status status =
      ParallelRun(3, [](int id, TaskGroup&) -> absl::Status {
        if (id == 0) throw std::runtime_error("on the caller");
        if (id == 1) throw 7;
        return absl::OkStatus();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Message(status),
            "task 0 of 3: threw: on the caller; "
            "task 1 of 3: threw something that is not a std::exception");
}

TEST_F(ThreadPoolTest, PoolWorksAfterAFailedLaunch) {
  EXPECT_FALSE(ParallelRun(4, [](int, TaskGroup&) {
                 return absl::UnknownError("all fail");
               }).ok());
  EXPECT_TRUE(
      ParallelRun(4, [](int, TaskGroup&) { return absl::OkStatus(); }).ok());
}

// Writes to its own cell, then reads those of all others, phase by phase.
absl::Status WriteThenReadAll(std::vector<int>& cells, int id,
                              TaskGroup& group) {
  for (int phase = 1; phase <= 20; ++phase) {
    cells[id] = phase;
    if (!group.Barrier()) return absl::InternalError("broken before reading");
    for (const int cell : cells) {
      if (cell != phase) return absl::InternalError("phases are mixed");
    }
    if (!group.Barrier()) return absl::InternalError("broken after reading");
  }
  return absl::OkStatus();
}

TEST_F(ThreadPoolTest, BarrierSeparatesPhases) {
  std::vector<int> cells(2);
  const absl::Status status = ParallelRun(2, [&](int id, TaskGroup& group) {
    return WriteThenReadAll(cells, id, group);
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ThreadPoolTest, BarrierWorksWithManyMoreTasksThanCores) {
  std::vector<int> cells(24);
  const absl::Status status = ParallelRun(24, [&](int id, TaskGroup& group) {
    return WriteThenReadAll(cells, id, group);
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ThreadPoolTest, BarrierOfOneTaskIsPassedAtOnce) {
  EXPECT_TRUE(ParallelRun(1, [](int, TaskGroup& group) {
                return group.Barrier() && group.Barrier()
                           ? absl::OkStatus()
                           : absl::InternalError("broken");
              }).ok());
}

TEST_F(ThreadPoolTest, FailedTaskReleasesThoseWhoWaitForIt) {
  const absl::Status status = ParallelRun(4, [](int id, TaskGroup& group) {
    if (id == 2) return absl::DataLossError("the cause");
    const bool first = group.Barrier();
    const bool second = group.Barrier();
    return first || second ? absl::InternalError("passed") : absl::OkStatus();
  });
  EXPECT_EQ(Message(status), "task 2 of 4: the cause");
}

TEST_F(ThreadPoolTest, TaskThatReturnsEarlyReleasesThoseWhoWaitForIt) {
  std::atomic<int> released = 0;
  ASSERT_TRUE(ParallelRun(4, [&](int id, TaskGroup& group) {
                if (id != 0 && !group.Barrier()) ++released;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(released, 3);
}

TEST_F(ThreadPoolTest, BarrierThatAllReachedHoldsThoughSomeThenEnd) {
  std::atomic<int> passed = 0;
  std::atomic<int> broken = 0;
  ASSERT_TRUE(ParallelRun(4, [&](int id, TaskGroup& group) {
                passed += group.Barrier();
                if (id != 1) broken += !group.Barrier();
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(passed, 4);
  EXPECT_EQ(broken, 3);
}

TEST_F(ThreadPoolTest, CountsOutOfRangeAreRefused) {
  const auto task = [](int, TaskGroup&) {
    ADD_FAILURE() << "must not run";
    return absl::OkStatus();
  };
  for (const int count : {-1, kMaxTasks + 1}) {
    const absl::Status status = ParallelRun(count, task);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(std::to_string(count) + " tasks"));
  }
}

TEST_F(ThreadPoolTest, AffinityOfTheCallerStays) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  ASSERT_TRUE(
      ParallelRun(4, [](int, TaskGroup&) { return absl::OkStatus(); }).ok());
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(ThreadPoolTest, ForkedChildHasWorkersOfItsOwn) {
#ifdef NODEWISE_TEST_UNDER_TSAN
  GTEST_SKIP() << "ThreadSanitizer has no threads after fork";
#endif
  std::atomic<int> runs = 0;
  const auto task = [&](int, TaskGroup& group) {
    ++runs;
    return group.Barrier() ? absl::OkStatus() : absl::InternalError("broken");
  };
  ASSERT_TRUE(ParallelRun(3, task).ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // A child that hangs must not outlive the test.
    const bool ok = ParallelRun(3, task).ok() && ParallelRun(0, task).ok();
    _exit(ok && runs == 3 + 3 + 4 ? 0 : 1);
  }
  int wait_status = -1;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_TRUE(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
      << "wait status " << wait_status;
  EXPECT_TRUE(ParallelRun(3, task).ok());
}

std::atomic<int> workers_started = 0;

TEST_F(ThreadPoolTest, WorkersBeginWithWhatIsSet) {
#ifdef NODEWISE_TEST_UNDER_TSAN
  GTEST_SKIP() << "ThreadSanitizer has no threads after fork";
#endif
  const pid_t child = fork();  // Which has no workers yet.
  if (child == 0) {
    alarm(60);
    SetWorkerStart([] { ++workers_started; });
    const auto task = [](int, TaskGroup&) { return absl::OkStatus(); };
    const bool ok = ParallelRun(3, task).ok() && workers_started == 2 &&
                    ParallelRun(5, task).ok() && workers_started == 4;
    _exit(ok ? 0 : 1);
  }
  int wait_status = -1;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_TRUE(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
      << "wait status " << wait_status;
}

class TaskLog : public TaskObserver {
 public:
  TaskLog() { SetTaskObserver(this); }
  ~TaskLog() override { SetTaskObserver(nullptr); }
  void TaskRan(int64_t start_ns, int64_t end_ns) noexcept override {
    const std::lock_guard lock(mutex_);
    threads.push_back(std::this_thread::get_id());
    is_ordered &= 0 < start_ns && start_ns <= end_ns;
  }

  std::vector<std::thread::id> threads;
  bool is_ordered = true;

 private:
  std::mutex mutex_;
};

TEST_F(ThreadPoolTest, ObserverIsToldOfEachTaskOnTheThreadThatRanIt) {
  std::array<std::thread::id, 3> ran_on;
  TaskLog log;
  ASSERT_TRUE(ParallelRun(3, [&](int task_id, TaskGroup&) {
                ran_on[static_cast<size_t>(task_id)] =
                    std::this_thread::get_id();
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(log.threads, ::testing::UnorderedElementsAreArray(ran_on));
  EXPECT_TRUE(log.is_ordered);
}

TEST_F(ThreadPoolTest, ObserverIsToldOfTasksThatFailToo) {
  TaskLog log;
  const absl::Status status =
      ParallelRun(2, [](int, TaskGroup&) { return absl::AbortedError("no"); });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(log.threads.size(), 2u);
}

TEST_F(ThreadPoolTest, ObserverThatHasLeftIsToldNothing) {
  TaskLog kept;
  SetTaskObserver(nullptr);
  ASSERT_TRUE(
      ParallelRun(2, [](int, TaskGroup&) { return absl::OkStatus(); }).ok());
  EXPECT_TRUE(kept.threads.empty());
}

// The rounding modes that four tasks find.
std::array<int, 4> ModesOfTasks() {
  std::array<int, 4> modes{};
  EXPECT_TRUE(ParallelRun(4, [&](int id, TaskGroup&) {
                modes[static_cast<size_t>(id)] = std::fegetround();
                return absl::OkStatus();
              }).ok());
  return modes;
}

// Every task on another thread than the launcher's sets the mode, and leaves
// it.
void SetModeOfWorkers(int mode) {
  EXPECT_TRUE(ParallelRun(4, [&](int id, TaskGroup&) {
                if (id > 0) std::fesetround(mode);
                return absl::OkStatus();
              }).ok());
}

TEST_F(ThreadPoolTest, JudgedTasksRunInTheDefaultFloatEnvironment) {
  SetModeOfWorkers(FE_UPWARD);
  {
    const DefaultFloatEnvironment floats;
    EXPECT_THAT(ModesOfTasks(), Each(FE_TONEAREST));
    std::array<int, 2> nested{};
    EXPECT_TRUE(ParallelRun(2, [&](int id, TaskGroup&) {
                  nested[static_cast<size_t>(id)] = ModesOfTasks()[1];
                  return absl::OkStatus();
                }).ok());
    EXPECT_THAT(nested, Each(FE_TONEAREST));
  }
  // Compiled code finds what it has left.
  EXPECT_EQ(ModesOfTasks()[1], FE_UPWARD);
  SetModeOfWorkers(FE_TONEAREST);
}

TEST_F(ThreadPoolTest, WorkersHaveTheFloatEnvironmentThatALibraryLeft) {
  const DefaultFloatEnvironment floats;
  const KeepCandidateFloats kept;
  EXPECT_THAT(ModesOfTasks(), Each(FE_TONEAREST));
  {
    const CandidateFloatEnvironment candidate;
    std::fesetround(FE_DOWNWARD);  // As a constructor may.
    CandidateFloatsChanged();
    EXPECT_THAT(ModesOfTasks(), Each(FE_DOWNWARD));
  }
  EXPECT_THAT(ModesOfTasks(), Each(FE_TONEAREST));
}

TEST_F(ThreadPoolTest, WatchSeesWhatATaskLeftOnAnotherThread) {
  FloatWatch watch(/*puts_back=*/true);
  SetModeOfWorkers(FE_UPWARD);
  const auto change = watch.Finish();
  ASSERT_TRUE(change.has_value());
  EXPECT_THAT(DescribeChange(*change), HasSubstr("(upward, was to nearest)"));
  EXPECT_THAT(ModesOfTasks(), Each(FE_TONEAREST));
}

}  // namespace
}  // namespace nodewise
