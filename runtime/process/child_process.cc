#include "runtime/process/child_process.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "fmt/format.h"
#include "nodewise/process/isolation.h"
#include "nodewise/process/thread_census.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/run_mark.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "nodewise/support/words.h"

namespace nodewise {

std::string ChildEnd::ToString(int64_t limit_ms) const {
  switch (kind) {
    case Kind::kReturned:
      return std::string(MessageOf(status));
    case Kind::kSignal:
      return fmt::format(
          "crashed with {}{}", SignalText(signal),
          has_address ? " at address " + AddressText(address) : "");
    case Kind::kTimeout:
      return fmt::format("had not returned after {} ms and was stopped",
                         limit_ms);
    case Kind::kExit:
      return fmt::format("ended the process with exit status {}", exit_status);
    case Kind::kVanished:
      break;
  }
  return "its process ended, and something else in this one collected its exit "
         "status";
}

// Filled in by the thread that ends the child, in a signal handler at times, so
// it has no member that allocates. The first to claim the state writes the
// rest.
struct ChildReport {
  enum State : uint32_t { kRunning, kReturned, kCrashed, kExited };

  std::atomic<uint32_t> state{kRunning};
  int signal = 0;
  bool has_address = false;
  bool is_own = false;  // The child has sent it to itself.
  uint64_t address = 0;
  // The node whose thread, left behind, ended the process; or else the first
  // one that has left any. -1: none.
  std::atomic<int64_t> left_by{-1};
  std::atomic<bool> is_left_thread{false};
  int exit_status = 0;
  bool is_memory_short = false;  // When it crashed or gave up.
  int status_code = 0;
  size_t message_bytes = 0;
  char message[4096] = {};
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS};
// Usually sent from outside; who sends them to himself has crashed.
constexpr int kSentSignals[] = {SIGTERM, SIGINT, SIGHUP};
// Enough for the state of any vector unit, which is saved there too.
constexpr size_t kSignalStackBytes = 128 << 10;

// Used if the stack may grow without limit, which a thread's cannot.
constexpr size_t kMostStackBytes = size_t{256} << 20;

// The report to fill in; set in the child.
ChildReport* report_of_child = nullptr;

// Returns true for the first caller, which writes the report.
bool ClaimEnd(ChildReport::State state) {
  uint32_t running = ChildReport::kRunning;
  return report_of_child->state.compare_exchange_strong(running, state);
}

// Notes which node has left behind the calling thread, which ends the process.
void NoteThread() {
  const ThreadCensus* const census = ThreadCensus::Current();
  if (census == nullptr) return;
  const auto maker = census->MakerOfThisThread();
  if (!maker.has_value()) return;
  report_of_child->left_by = *maker;
  report_of_child->is_left_thread = true;
}

// Leaves it to a crashed thread, if there is one, to end the process as soon as
// it has reported how.
void WaitForCrashToEndProcess() {
  while (report_of_child->state == ChildReport::kCrashed) pause();
}

void OnCrash(int signal_number, siginfo_t* info, void*) {
  if (ClaimEnd(ChildReport::kCrashed)) {
    // Codes from the kernel come with the access's address, except for
    // SI_KERNEL, which stands for addresses that are not valid at all.
    const bool is_access = signal_number == SIGSEGV || signal_number == SIGBUS;
    report_of_child->signal = signal_number;
    report_of_child->has_address =
        is_access && info->si_code > 0 && info->si_code != SI_KERNEL;
    report_of_child->address = reinterpret_cast<uintptr_t>(info->si_addr);
    report_of_child->is_own = info->si_code <= 0 && info->si_pid == getpid();
    NoteThread();
    report_of_child->is_memory_short = MemoryIsShort();
  } else {
    WaitForCrashToEndProcess();
  }
  // Blocked until this handler returns.
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// Work may call exit(), which would otherwise run the handlers of the parent in
// the child.
void OnExit(int exit_status, void*) {
  if (ClaimEnd(ChildReport::kExited)) {
    report_of_child->exit_status = exit_status;
    NoteThread();
    report_of_child->is_memory_short = MemoryIsShort();
  }
  WaitForCrashToEndProcess();
  _exit(exit_status);
}

// A signal stack for the calling thread, so that a stack overflow can be
// reported. Under the address sanitizer a thread unmaps the stack it ends with,
// so the old one is restored.
class SignalStack {
 public:
  SignalStack() {
    memory_ = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t stack{};
    stack.ss_sp = memory_;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, &previous_);
  }
  ~SignalStack() {
    if (memory_ != MAP_FAILED) sigaltstack(&previous_, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_;
  stack_t previous_{};
};

// Signals of a crash are unblocked, since a blocked one would end the child
// without a report. Those sent from outside are left alone where the parent
// ignores them.
void CatchCrashes() {
  struct sigaction action {};
  action.sa_sigaction = &OnCrash;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  sigset_t crashes;
  sigemptyset(&crashes);
  for (const int signal_number : kCrashSignals) {
    sigaction(signal_number, &action, nullptr);
    sigaddset(&crashes, signal_number);
  }
  sigprocmask(SIG_UNBLOCK, &crashes, nullptr);
  for (const int signal_number : kSentSignals) {
    struct sigaction before {};
    sigaction(signal_number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {
      sigaction(signal_number, &action, nullptr);
    }
  }
}

// A message longer than the report is cut; the code always fits.
void ReportStatus(const absl::Status& status) {
  ChildReport& report = *report_of_child;
  const std::string_view message = MessageOf(status);
  report.status_code = static_cast<int>(status.code());
  report.message_bytes = std::min(message.size(), sizeof(report.message));
  message.copy(report.message, report.message_bytes);
  ClaimEnd(ChildReport::kReturned);
  WaitForCrashToEndProcess();
}

// Running out of memory is not a crash.
absl::Status CatchShortage(absl::FunctionRef<absl::Status()> work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return StatusOfHandled("child process");
  }
}

// Runs `work` in a thread with as large a stack as functions have in a run of
// this process, or as there is address space for. Returns 0, or the error
// number if there can be no thread.
int RunInThread(absl::FunctionRef<void()> work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0) {
    const rlim_t bytes = std::min<rlim_t>(limit.rlim_cur, kMostStackBytes);
    // A size below the minimum of a thread is refused, which keeps the default.
    pthread_attr_setstacksize(&attributes, bytes);
  }
  const auto run = [](void* of_work) -> void* {
    (*static_cast<absl::FunctionRef<void()>*>(of_work))();
    return nullptr;
  };
  pthread_t thread{};
  int rc = pthread_create(&thread, &attributes, run, &work);
  if (rc != 0) rc = pthread_create(&thread, nullptr, run, &work);
  pthread_attr_destroy(&attributes);
  if (rc != 0) return rc;
  // This thread blocks all signals, so that the work itself gets those that it
  // sends to its process, and at once.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_join(thread, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return rc;
}

[[noreturn]] void LiveAsChild(ChildReport* report, pid_t parent,
                              absl::FunctionRef<absl::Status()> work) {
  report_of_child = report;
  // The parent's mark says what the parent does, so the child does not write to
  // it.
  RunMark::Use(nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  setpgid(0, 0);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  CatchCrashes();
  // The handler that the parent has set may end the process without a signal.
  std::set_terminate(&std::abort);
  // The pool's workers do not exist in the child, and no other code could give
  // the new ones a signal stack. They keep it for ever.
  SetWorkerStart([] { thread_local const SignalStack stack; });
  // Runs before all inherited exit handlers, and ends the process.
  on_exit(&OnExit, nullptr);
  // OpenMP has one team per thread: a new thread has none yet, and does not
  // wait for threads that stayed behind.
  const ThreadFloats floats;
  const int rc = RunInThread([&] {
    floats.Adopt();
    const SignalStack stack;
    ReportStatus(CatchShortage(work));
  });
  if (rc != 0) {
    ReportStatus(
        ResourceExhausted("no thread in the child: {}", std::strerror(rc)));
  }
  fflush(stdout);  // Holds only what the work printed.
  _exit(0);
}

template <typename Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Collects a child; returns false if it was collected before.
bool Collect(pid_t child, int* wait_status) {
  // As long as a child is not collected, its number is still its own, and its
  // group's.
  siginfo_t info{};
  const int rc = Uninterrupted([&] {
    return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  });
  if (rc != 0) return false;
  kill(-child, SIGKILL);
  return Uninterrupted([&] { return waitpid(child, wait_status, 0); }) == child;
}

// A child that memory ran out in says nothing of the work: that is an error.
absl::StatusOr<ChildEnd> EndOf(const ChildReport& report, bool is_collected,
                               int wait_status) {
  ChildEnd end;
  const uint32_t state = report.state.load();
  const bool has_crashed = state == ChildReport::kCrashed;
  if (report.left_by >= 0 && report.left_by <= UINT32_MAX) {
    end.left_by = static_cast<uint32_t>(report.left_by);
    end.is_left_thread = report.is_left_thread;
    // In any other state the process may have been ended by any thread.
    end.is_known_thread = has_crashed || state == ChildReport::kExited;
  }
  if (is_collected && WIFSIGNALED(wait_status)) {
    end.kind = ChildEnd::Kind::kSignal;
    end.signal = WTERMSIG(wait_status);
    const bool is_reported = has_crashed && report.signal == end.signal;
    end.has_address = is_reported && report.has_address;
    end.address = end.has_address ? report.address : 0;
    end.is_own = is_reported && report.is_own;
  } else if (state == ChildReport::kReturned) {
    end.kind = ChildEnd::Kind::kReturned;
    end.status = absl::Status(
        static_cast<absl::StatusCode>(report.status_code),
        std::string(report.message,
                    std::min(report.message_bytes, sizeof(report.message))));
  } else if (state == ChildReport::kExited || is_collected) {
    end.kind = ChildEnd::Kind::kExit;
    end.exit_status =
        is_collected ? WEXITSTATUS(wait_status) : report.exit_status;
  } else if (has_crashed) {
    end.kind = ChildEnd::Kind::kSignal;
    end.signal = report.signal;
    end.has_address = report.has_address;
    end.address = report.address;
  }
  if (absl::IsResourceExhausted(end.status)) {
    return Shortage(std::string(MessageOf(end.status)));
  }
  if (report.is_memory_short) return OutOfMemory();
  return end;
}

absl::Status SystemError(const char* what) {
  return ResourceExhausted("child process: {}: {}", what, std::strerror(errno));
}

struct SigchldState {
  std::mutex mutex;
  int holders = 0;               // mutex
  bool is_changed = false;       // mutex
  struct sigaction previous {};  // mutex; the process's action.
};

// While anything holds the result, SIGCHLD is not ignored in this process:
// otherwise the kernel would discard how a child ended.
std::shared_ptr<void> KeepChildStatuses() {
  static auto* const state = new SigchldState();
  {
    const std::lock_guard lock(state->mutex);
    if (state->holders++ == 0) {
      sigaction(SIGCHLD, nullptr, &state->previous);
      state->is_changed = state->previous.sa_handler == SIG_IGN ||
                          (state->previous.sa_flags & SA_NOCLDWAIT) != 0;
      struct sigaction action {};
      action.sa_handler = SIG_DFL;
      if (state->is_changed) sigaction(SIGCHLD, &action, nullptr);
    }
  }
  // Without the lock: if memory runs out here, the deleter is called at once.
  return std::shared_ptr<void>(state, [](void*) {
    const std::lock_guard lock(state->mutex);
    if (--state->holders > 0 || !state->is_changed) return;
    sigaction(SIGCHLD, &state->previous, nullptr);
  });
}

}  // namespace

// A day is more than any node needs, and sums with it do not overflow.
absl::Status CheckTimeLimit(int64_t limit_ms) {
  if (limit_ms >= 1 && limit_ms <= kMostTimeLimitMs) return absl::OkStatus();
  return InvalidArgument("time limit: found {} ms, expected 1 to {}", limit_ms,
                         kMostTimeLimitMs);
}

// No swap is reserved: outputs may be large, and pages that are never touched
// cost nothing.
absl::StatusOr<SharedMemory> ShareMemory(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return SystemError("no shared memory");
  return SharedMemory(static_cast<uint8_t*>(data), UnmapShared{bytes});
}

void UnmapShared::operator()(uint8_t* data) const { munmap(data, bytes); }

void NoteLeftThreads(const ThreadCensus& census) {
  if (report_of_child == nullptr || report_of_child->left_by >= 0) return;
  const auto maker = census.FirstMaker();
  if (maker.has_value()) report_of_child->left_by = *maker;
}

absl::StatusOr<ChildRunner> ChildRunner::Create() {
  NODEWISE_ASSIGN_OR_RETURN(SharedMemory shared,
                            ShareMemory(sizeof(ChildReport)));
  return ChildRunner(std::move(shared), KeepChildStatuses());
}

RunningChild::RunningChild(pid_t pid, const ChildReport* report)
    : pid_(pid),
      descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      report_(report) {}

RunningChild::RunningChild(RunningChild&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      descriptor_(std::move(other.descriptor_)),
      report_(other.report_) {}

RunningChild::~RunningChild() {
  if (pid_ == 0) return;
  Kill();
  int wait_status = 0;
  (void)Collect(pid_, &wait_status);
}

// Looks without collecting. A child that something else has collected counts as
// ended.
bool RunningChild::HasEnded() const {
  siginfo_t info{};
  const int rc = waitid(P_PID, static_cast<id_t>(pid_), &info,
                        WEXITED | WNOHANG | WNOWAIT);
  return rc == 0 ? info.si_pid == pid_ : errno == ECHILD;
}

// The thread that waited longest stands for the child: work is done when its
// slowest thread is.
int64_t RunningChild::CpuWaitMs() const {
  int64_t longest_ns = 0;
  std::error_code ignored;
  const std::string tasks = fmt::format("/proc/{}/task", pid_);
  for (const int thread : NumbersInFolder(tasks, &ignored)) {
    // The processor time of the thread, how long it waited, how often it ran.
    std::ifstream file(fmt::format("{}/{}/schedstat", tasks, thread));
    int64_t ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) {
      longest_ns = std::max(longest_ns, waited_ns);
    }
  }
  return longest_ns / 1'000'000;
}

// Returns false if the child has not ended in time.
bool RunningChild::WaitForEnd(int64_t limit_ms) const {
  auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  int64_t waited_before = limit_ms > 0 ? CpuWaitMs() : 0;
  for (int64_t pause_us = 50;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (descriptor() >= 0) {
      pollfd wanted = {descriptor(), POLLIN, 0};
      const int64_t wait = std::clamp<int64_t>(left.count(), 0, INT32_MAX);
      if (poll(&wanted, 1, static_cast<int>(wait)) > 0) return true;
    } else {
      // There is no descriptor to wait on: a kernel before 5.3, or a sandbox.
      if (HasEnded()) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      pause_us = std::min<int64_t>(pause_us * 2, 2000);
    }
    if (left.count() > 0) continue;
    const int64_t waited = limit_ms > 0 ? CpuWaitMs() : 0;
    if (waited <= waited_before) return false;
    end += std::chrono::milliseconds(waited - waited_before);
    waited_before = waited;
  }
}

// The group first, for processes that the work has started; then the child
// itself, in case it has not got its group yet.
void RunningChild::Kill() const {
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
}

absl::StatusOr<ChildEnd> RunningChild::Wait(int64_t limit_ms) {
  const bool has_ended = WaitForEnd(limit_ms);
  if (!has_ended) Kill();
  int wait_status = 0;
  const bool is_collected = Collect(std::exchange(pid_, 0), &wait_status);
  if (has_ended) return EndOf(*report_, is_collected, wait_status);
  ChildEnd end;
  end.kind = ChildEnd::Kind::kTimeout;
  return end;
}

// The report is made anew for each child in the same memory, since there is one
// child at a time.
absl::StatusOr<RunningChild> ChildRunner::Start(
    absl::FunctionRef<absl::Status()> work) {
  auto* const report = new (shared_.get()) ChildReport;
  // The child has a copy of what is buffered, and may flush it.
  fflush(stdout);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) LiveAsChild(report, parent, work);
  // Done on both sides, so that the group exists no matter which comes first.
  setpgid(child, child);
  return RunningChild(child, report);
}

absl::StatusOr<ChildEnd> ChildRunner::Run(
    absl::FunctionRef<absl::Status()> work, int64_t limit_ms) {
  NODEWISE_ASSIGN_OR_RETURN(RunningChild child, Start(work));
  return child.Wait(limit_ms);
}

}  // namespace nodewise
