#include "nodewise/support/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Two cache lines: x86 prefetches them in pairs.
constexpr size_t kNoSharingBytes = 128;
constexpr int kMaxCpus = 8192;
constexpr size_t kSetBytes = CPU_ALLOC_SIZE(kMaxCpus);
constexpr std::chrono::microseconds kSpinTime(20);
constexpr int kPollsPerLookAtTheClock = 64;

struct Processors {
  int cpus = 1;
  int cores = 1;
};

// Names the core that `cpu` is part of by its hardware threads, as in "0,4".
std::string CoreOf(int cpu) {
  std::ifstream file(fmt::format(
      "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string siblings;
  if (std::getline(file, siblings)) return siblings;
  return fmt::format("cpu{}", cpu);  // Without sysfs, each is a core.
}

Processors CountProcessors() {
  // Not a plain cpu_set_t: the kernel refuses one with fewer bits than CPUs.
  std::vector<cpu_set_t> set(kSetBytes / sizeof(cpu_set_t));
  if (sched_getaffinity(0, kSetBytes, set.data()) != 0) {
    const int cpus =
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return {.cpus = cpus, .cores = cpus};
  }
  int cpus = 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!CPU_ISSET_S(cpu, kSetBytes, set.data())) continue;
    ++cpus;
    cores.insert(CoreOf(cpu));
  }
  return {.cpus = cpus, .cores = static_cast<int>(cores.size())};
}

const Processors& AvailableProcessors() {
  static const Processors processors = CountProcessors();
  return processors;
}

// How many tasks run side by side for the launch whose task this thread runs
// and the launches around that one; 1 outside of all launches.
thread_local int tasks_around = 1;

std::atomic<int> num_threads_override{0};
std::atomic<TaskObserver*> task_observer{nullptr};
std::atomic<void (*)()> worker_start{nullptr};
thread_local bool is_pool_worker = false;
// Workers stay for ever, so that their numbers stay theirs.
std::array<std::atomic<pid_t>, kMaxTasks> worker_threads;
std::atomic<size_t> num_worker_threads{0};

void NotePoolWorker() {
  is_pool_worker = true;
  const size_t place = num_worker_threads++;
  if (place >= worker_threads.size()) return;
  worker_threads[place] = static_cast<pid_t>(syscall(SYS_gettid));
}

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls until `word` is neither `calm` nor `asleep`; returns false if that took
// too long.
bool SpinWhile(const std::atomic<uint32_t>& word, uint32_t calm,
               uint32_t asleep) {
  std::chrono::steady_clock::time_point end;
  for (bool first = true;; first = false) {
    for (int i = 0; i < kPollsPerLookAtTheClock; ++i) {
      const uint32_t value = word.load(std::memory_order_acquire);
      if (value != calm && value != asleep) return true;
      Pause();
    }
    const auto now = std::chrono::steady_clock::now();
    if (first) end = now + kSpinTime;
    if (now >= end) return false;
  }
}

// Waits while `word` is `calm`, in the end by making it `asleep` and blocking.
// A thread that changes it then sees from the old value whether to notify, and
// so makes no system call for a thread that spins. Returns whether spinning was
// enough.
bool WaitWhile(std::atomic<uint32_t>& word, uint32_t calm, uint32_t asleep,
               bool spin) {
  if (spin && SpinWhile(word, calm, asleep)) return true;
  uint32_t found = calm;
  if (word.compare_exchange_strong(found, asleep) || found == asleep) {
    word.wait(asleep);
  }
  return false;
}

// The flags in TaskGroup::phase_, and the step from one phase to the next.
constexpr uint32_t kAsleep = 1;
constexpr uint32_t kBroken = 2;
constexpr uint32_t kFlags = kAsleep | kBroken;
constexpr uint32_t kOnePhase = 4;

}  // namespace

// What cannot be read as a number above 0 is passed over, as if it were not
// set.
int ThreadCountFrom(const char* tvm, const char* omp, int cores) {
  for (const char* value : {tvm, omp}) {
    int count = 0;
    if (value != nullptr && absl::SimpleAtoi(value, &count) && count >= 1) {
      return std::min(count, kMaxTasks);
    }
  }
  return std::clamp(cores, 1, kMaxTasks);
}

// Two threads of one core share what it calculates with, so that cores count.
int NumThreads() {
  const int count = num_threads_override.load(std::memory_order_relaxed);
  if (count > 0) return count;
  static const int by_default = ThreadCountFrom(std::getenv("TVM_NUM_THREADS"),
                                                std::getenv("OMP_NUM_THREADS"),
                                                AvailableProcessors().cores);
  return by_default;
}

void SetNumThreads(int count) {
  num_threads_override.store(std::clamp(count, 0, kMaxTasks),
                             std::memory_order_relaxed);
}

void SetTaskObserver(TaskObserver* observer) {
  task_observer.store(observer, std::memory_order_release);
}

TaskGroup::TaskGroup(int num_tasks, int tasks_around, bool spin,
                     const ParallelTask& task, TaskObserver* observer)
    : num_tasks_(num_tasks),
      tasks_around_(tasks_around),
      task_(task),
      observer_(observer),
      has_default_floats_(HasDefaultFloats()),
      watch_(FloatWatch::ForThisThread()),
      spin_(spin) {}

bool TaskGroup::Barrier() {
  // The phase cannot move on without the calling task, so this load is exact.
  const uint32_t phase = phase_.load(std::memory_order_acquire) & ~kAsleep;
  if ((phase & kBroken) != 0) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_tasks_) {
    arrived_.store(0, std::memory_order_relaxed);
    const uint32_t before = phase_.exchange(phase + kOnePhase);
    if ((before & kAsleep) != 0) phase_.notify_all();
    return true;
  }
  // Tasks that arrive this far apart once will do so again, perhaps for lack of
  // a free CPU: the rest of the launch does not spin.
  const bool spin = spin_.load(std::memory_order_relaxed);
  if (!WaitWhile(phase_, phase, phase | kAsleep, spin) && spin) {
    spin_.store(false, std::memory_order_relaxed);
  }
  // A task that has passed may have ended by now and broken the next phase;
  // that does not concern this one.
  return (phase_.load(std::memory_order_acquire) & ~kFlags) != phase;
}

void TaskGroup::LeaveBarrier() {
  // Most tasks see that another was first and leave the cache line shared.
  if ((phase_.load(std::memory_order_acquire) & kBroken) != 0) return;
  const uint32_t before = phase_.fetch_or(kBroken);
  if ((before & kAsleep) != 0) phase_.notify_all();
}

// noexcept: there is no way out if memory for a message is lacking while other
// tasks still use the group.
void TaskGroup::RunTask(int task_id) noexcept {
  const int around = std::exchange(tasks_around, tasks_around_);
  const int64_t start = observer_ == nullptr ? 0 : ClockNanoseconds();
  absl::Status status = CallTask(task_id);
  if (observer_ != nullptr) observer_->TaskRan(start, ClockNanoseconds());
  tasks_around = around;
  if (!status.ok()) {
    const std::lock_guard lock(errors_mutex_);
    errors_.emplace_back(task_id, std::move(status));
  }
  if (num_tasks_ > 1) LeaveBarrier();
}

// A thread that TVM's pool makes has the environment of the thread that
// launches, and keeps what tasks leave in it. A worker here takes that
// environment over even if it was made earlier, for something else.
void TaskGroup::AdoptFloats(uint32_t* generation) const {
  const uint32_t now = CandidateFloatsGeneration();
  if (*generation == now) return;
  WriteFloatEnvironment(launchers_floats_);
  *generation = now;
}

void TaskGroup::RunTaskElsewhere(int task_id, uint32_t* generation) {
  if (has_default_floats_) {
    const DefaultFloatEnvironment floats;
    return RunTask(task_id);
  }
  AdoptFloats(generation);
  if (watch_ == nullptr) return RunTask(task_id);
  FloatWatch watch(watch_->puts_back());
  RunTask(task_id);
  const std::optional<FloatChange> change = watch.Finish();
  if (!change.has_value()) return;
  const std::lock_guard lock(errors_mutex_);
  watch_->NoteInTask(*change);
}

// A task may be compiled code, which throws what it likes.
absl::Status TaskGroup::CallTask(int task_id) {
  ClearExceptionPlace();  // The thread has run other code before.
  try {
    return task_(task_id, *this);
  } catch (...) {
    return StatusOfHandled("");
  }
}

// Tasks end in any order; the message is the same each time.
absl::Status TaskGroup::JoinedErrors() {
  if (errors_.empty()) return absl::OkStatus();
  std::ranges::sort(errors_, {}, &std::pair<int, absl::Status>::first);
  std::string text;
  for (const auto& [task_id, status] : errors_) {
    text += fmt::format("{}task {} of {}: {}", text.empty() ? "" : "; ",
                        task_id, num_tasks_, std::string(status.message()));
  }
  return WithMessage(errors_.front().second, text);
}

// Hands out workers. A caller that has leased a worker owns it until it is
// given back, and talks to it through its state alone.
class ThreadPool {
 public:
  static ThreadPool& Get() {
    static ThreadPool* const pool = [] {
      pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                     [] {
                       // The workers did not come along.
                       Get().idle_ = nullptr;
                       Get().num_leased_ = 0;
                       Get().mutex_.unlock();
                     });
      return new ThreadPool;
    }();
    return *pool;
  }

  absl::Status Run(int num_tasks, ParallelTask task) {
    Lease lease;
    if (num_tasks == 0) {
      // Results depend on how sums are cut into tasks, so the number must not
      // depend on what other threads are doing at that moment.
      lease = LeaseUpTo(std::max(1, NumThreads() / tasks_around) - 1);
    } else {
      NODEWISE_ASSIGN_OR_RETURN(lease, TakeExactly(num_tasks - 1));
    }
    const int count = 1 + lease.count;
    // With more tasks than CPUs, a spinning task keeps another from running.
    const bool spin = count <= AvailableProcessors().cpus &&
                      num_leased_ < AvailableProcessors().cpus;
    TaskGroup group(count, std::min(tasks_around * count, kMaxTasks), spin,
                    task, task_observer.load(std::memory_order_acquire));
    if (!group.has_default_floats_ && NeedFloats(lease)) {
      group.launchers_floats_ = ReadFloatEnvironment();
    }
    int task_id = 0;
    for (Worker* each = lease.first; each != nullptr; each = each->next) {
      each->Start(group, ++task_id);
    }
    group.RunTask(0);
    for (Worker* each = lease.first; each != nullptr; each = each->next) {
      each->Join();
    }
    ReturnLease(lease);
    absl::Status status = group.JoinedErrors();
    // The workers do not know what they worked on.
    if (absl::IsResourceExhausted(status) && !WorkingOn::Place().empty()) {
      status = At(WorkingOn::Place(), status);
    }
    return status;
  }

 private:
  // All that passes between launcher and worker shares one cache line.
  struct alignas(kNoSharingBytes) Worker {
    enum State : uint32_t { kIdle, kIdleAsleep, kBusy, kBusyAwaited };

    void Start(TaskGroup& new_group, int new_task_id) {
      group = &new_group;
      task_id = new_task_id;
      launcher_cpu = sched_getcpu();
      if (state.exchange(kBusy) == kIdleAsleep) state.notify_one();
    }

    // On a busy machine launcher and worker often share a CPU. Spinning would
    // then keep the other thread from doing what is waited for: an empty launch
    // took 50 us with spinning, 6 us without. (Where threads are is a guess,
    // but a cheap one.)
    void Join() {
      const bool spin = group->spin_.load(std::memory_order_relaxed) &&
                        cpu.load(std::memory_order_relaxed) != sched_getcpu();
      WaitWhile(state, kBusy, kBusyAwaited, spin);
    }

    void Loop() {
      NotePoolWorker();
      if (void (*const start)() = worker_start.load()) start();
      for (bool spin = false;;) {
        WaitWhile(state, kIdle, kIdleAsleep, spin);
        group->RunTaskElsewhere(task_id, &floats_generation);
        const int here = sched_getcpu();
        cpu.store(here, std::memory_order_relaxed);
        spin = group->spin_.load(std::memory_order_relaxed) &&
               launcher_cpu != here;
        // This is the last access: from here on the group may be gone, and this
        // worker may be leased again. The worker itself stays for ever, so it
        // may still be notified.
        if (state.exchange(kIdle) == kBusyAwaited) state.notify_one();
      }
    }

    std::atomic<uint32_t> state{kIdle};
    int task_id = 0;
    TaskGroup* group = nullptr;
    int launcher_cpu = 0;            // The launcher's at the start of the task.
    uint32_t floats_generation = 0;  // Taken over; 0: none yet.
    std::atomic<int> cpu{0};        // The worker's at the end of its last task.
    Worker* next = nullptr;         // The next in the idle list or the lease.
    Worker* next_of_all = nullptr;  // Written once.
  };

  struct Lease {
    Worker* first = nullptr;
    Worker* last = nullptr;
    int count = 0;
  };

  static bool NeedFloats(const Lease& lease) {
    const uint32_t now = CandidateFloatsGeneration();
    for (Worker* each = lease.first; each != nullptr; each = each->next) {
      if (each->floats_generation != now) return true;
    }
    return false;
  }

  absl::StatusOr<Lease> TakeExactly(int count) {
    Lease lease = LeaseUpTo(count);
    if (lease.count == count) return lease;
    ReturnLease(lease);
    return ResourceExhausted(
        "thread pool: found {} threads, expected {} (ask for fewer tasks)",
        1 + lease.count, 1 + count);
  }

  // Takes from the front, in the order in which ReturnLease() puts workers
  // there: a task gets the same worker again, and with it a warm cache.
  Lease LeaseUpTo(int count) {
    if (count == 0) return {};
    const std::lock_guard lock(mutex_);
    Lease lease;
    Worker** end = &lease.first;
    while (lease.count < count) {
      Worker* worker = idle_;
      if (worker != nullptr) {
        idle_ = worker->next;
      } else {
        worker = NewWorker();
        if (worker == nullptr) break;
      }
      worker->next = nullptr;
      *end = worker;
      end = &worker->next;
      lease.last = worker;
      ++lease.count;
    }
    num_leased_ += lease.count;
    return lease;
  }

  void ReturnLease(const Lease& lease) {
    if (lease.count == 0) return;
    const std::lock_guard lock(mutex_);
    lease.last->next = idle_;
    idle_ = lease.first;
    num_leased_ -= lease.count;
  }

  Worker* NewWorker() {
    try {
      auto worker = std::make_unique<Worker>();
      std::thread(&Worker::Loop, worker.get()).detach();
      worker->next_of_all = all_;
      all_ = worker.get();
      return worker.release();
    } catch (const std::exception&) {  // No memory, or no more threads.
      return nullptr;
    }
  }

  std::mutex mutex_;
  Worker* idle_ = nullptr;
  Worker* all_ = nullptr;  // Lets leak checkers reach all of them.
  std::atomic<int> num_leased_ = 0;
};

bool IsPoolWorker() { return is_pool_worker; }

bool IsPoolWorker(pid_t thread) {
  return std::find(worker_threads.begin(), worker_threads.end(), thread) !=
         worker_threads.end();
}

void SetWorkerStart(void (*start)()) { worker_start = start; }

absl::Status ParallelRun(int num_tasks, ParallelTask task) {
  if (num_tasks < 0 || num_tasks > kMaxTasks) {
    return InvalidArgument(
        "parallel launch: found {} tasks, expected 0 to {} (0 leaves the "
        "choice to the pool)",
        num_tasks, kMaxTasks);
  }
  return ThreadPool::Get().Run(num_tasks, task);
}

// A thread inherits the mask of its maker, so that no signal can reach it
// before it blocks them itself.
std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>([work = std::move(work)] {
      // It may be made while compiled code runs.
      const DefaultFloatEnvironment floats;
      work();
    });
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace nodewise
