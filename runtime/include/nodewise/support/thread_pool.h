#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {

// Fork and join for parallel loops. The process has one pool of persistent
// workers; a launch borrows idle ones, or new ones if all are busy, so launches
// may be nested and may come from several threads at once.
//
// The pool is never destroyed. After fork() the child starts with an empty
// pool; a task itself may fork only to exec or _exit. No thread's CPU affinity
// is changed: a worker inherits that of the thread whose launch created it.
//
// Tasks that a thread launches while it judges run in the default
// floating-point environment. For compiled code a worker keeps its own, which
// it has of the first thread that it works for
// (nodewise/support/float_environment.h).

class TaskGroup;

// The maximum number of tasks of one launch.
inline constexpr int kMaxTasks = 1024;

// Runs one task, 0 <= task_id < group.num_tasks(). It may throw.
using ParallelTask =
    absl::FunctionRef<absl::Status(int task_id, TaskGroup& group)>;

// Returns into how many tasks a launch without a count is split, from 1 to
// kMaxTasks: what SetNumThreads() says, else TVM_NUM_THREADS, else
// OMP_NUM_THREADS, else the physical cores that the first caller may run on.
// The environment is read once, at first use. Any thread may call.
int NumThreads();

// Overrides NumThreads() for the launches that follow, in all threads; counts
// above kMaxTasks become kMaxTasks, and 0 or less ends the override.
void SetNumThreads(int count);

// Applies the rule of NumThreads(): returns the first of `tvm` and `omp`, the
// values of the two variables or null, that is a positive integer, else
// `cores`.
int ThreadCountFrom(const char* tvm, const char* omp, int cores);

// Runs `task` once for each id, all at the same time, id 0 on the calling
// thread and every other on a worker of its own, and returns when all ended.
//
// With `num_tasks` 0 there are NumThreads() tasks, regardless of what other
// threads do, so that what the tasks compute does not depend on that; a launch
// from within a launch of n tasks has an n-th of them, and at least 1. There
// are fewer only if the system refuses to make a thread. Otherwise there are
// exactly `num_tasks`.
//
// Returns OK if all tasks did; else their errors in the order of the ids, as
// "task 2 of 4: message; task 3 of 4: message" (ids count from 0), with the
// code of the first. An exception of a task is its error, of code kInternal.
// Without running anything, fails with kInvalidArgument if `num_tasks` is
// below 0 or above kMaxTasks, and kResourceExhausted if no thread can be
// created. Any thread may call, even a running task.
absl::Status ParallelRun(int num_tasks, ParallelTask task);

// Watches which thread works when. It is told of every task, before its launch
// returns, on the thread that ran it; times are on the steady clock.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void TaskRan(int64_t start_ns, int64_t end_ns) noexcept = 0;
};

// Sets the observer of all launches that follow, in all threads; null for none,
// which costs nothing. A launch under way keeps telling the observer that was
// set when it began: the observer must outlive such launches.
void SetTaskObserver(TaskObserver* observer);

// Sets a function that every worker created from now on calls, on its own
// thread and before its first task; null for none. Workers stay, and serve all
// launches.
void SetWorkerStart(void (*start)());

// One launch, as its tasks see it; it lives until ParallelRun() returns.
class TaskGroup {
 public:
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  int num_tasks() const { return num_tasks_; }

  // Waits until every task of the group has called it as often as the calling
  // task has; what they wrote before is then visible. Returns false once that
  // cannot happen any more, because a task has ended before it got this far;
  // then, and at every later call, no task waits.
  // REQUIRES: called by a task of this group, on the thread that runs it.
  bool Barrier();

 private:
  friend class ThreadPool;

  TaskGroup(int num_tasks, int tasks_around, bool spin,
            const ParallelTask& task, TaskObserver* observer);

  void RunTask(int task_id) noexcept;
  // On another thread than the launcher's, which has taken over the floats of
  // `generation`.
  void RunTaskElsewhere(int task_id, uint32_t* generation);
  void AdoptFloats(uint32_t* generation) const;
  absl::Status CallTask(int task_id);
  // Breaks the barrier for tasks that wait for one that has ended.
  void LeaveBarrier();
  absl::Status JoinedErrors();

  const int num_tasks_;
  const int tasks_around_;  // Its tasks, times those of launches around it.
  const ParallelTask& task_;
  TaskObserver* const observer_;  // Usually null.
  // What the launcher has of nodewise/support/float_environment.h.
  const bool has_default_floats_;
  FloatWatch* const watch_;  // Usually null.
  // Only set if a task's thread has still to take it over.
  FloatEnvironment launchers_floats_;
  std::atomic<bool> spin_;  // Whether spinning while waiting may pay.

  // The number of barriers passed, above two flag bits (see the .cc).
  std::atomic<uint32_t> phase_{0};
  std::atomic<int> arrived_{0};

  std::mutex errors_mutex_;
  std::vector<std::pair<int, absl::Status>> errors_;
};

// Whether the calling thread is one of our pool's. May be called in a signal
// handler.
bool IsPoolWorker();

// Whether a thread of this process is one.
bool IsPoolWorker(pid_t thread);

// Starts a thread that takes none of the process's signals: those are for the
// threads that the host program knows of. Returns null if the system cannot
// create a thread.
std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work);

}  // namespace nodewise
