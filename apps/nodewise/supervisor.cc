#include "apps/nodewise/supervisor.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/run_mark.h"
#include "nodewise/support/words.h"

#ifdef NODEWISE_USE_PROFILER
#include "nodewise/process/thread_census.h"
#endif

namespace nodewise {
namespace {

// How long the worker may take to end after it has shown its report. What a
// library does at the end of its process may hang.
constexpr int kMostLooksAtEnd = 10;
constexpr timespec kLookAgain = {1, 0};

// What a process is sent for a fault of its own code.
constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS};

// What the worker says of its end. It may be written by what runs there.
struct WorkerReport {
  RunMark mark{/*is_read=*/true};
  std::atomic<int> finished{-1};  // The status that `work` returned.
  std::atomic<int> signal{0};
  std::atomic<bool> has_address{false}, is_other_thread{false};
  std::atomic<uint64_t> address{0};
  // Whether memory was short when the worker crashed or gave up.
  std::atomic<bool> is_memory_short{false};
  // A thread that was left behind and has crashed: the signal, and by which
  // node, -1 if that is unknown.
  std::atomic<int> parked_signal{0};
  std::atomic<int64_t> parked_node{-1};
};

WorkerReport* report_of_worker = nullptr;
pid_t worker = 0;

bool IsWorker() { return worker != 0 && getpid() == worker; }
bool IsMainThread() { return syscall(SYS_gettid) == getpid(); }

// Returns the node that has left the calling thread behind, as far as that is
// watched; else -1.
int64_t MakerOfThisThread() {
#ifdef NODEWISE_USE_PROFILER
  const ThreadCensus* const census = ThreadCensus::Current();
  if (census != nullptr) return census->MakerOfThisThread().value_or(-1);
#endif
  return -1;
}

// In the worker. A thread that a function has left behind may crash when
// nothing runs any more that it could belong to: it stays there for ever, so
// that the report is shown. Everything else ends the process as it would
// without this handler, with a core file where such are wanted.
void OnCrash(int signal_number, siginfo_t* info, void*) {
  WorkerReport& report = *report_of_worker;
  const bool is_ours = IsWorker();
  if (is_ours && !IsMainThread()) {
    const int64_t maker = MakerOfThisThread();
    const bool was_left =
        report.mark.has_loaded() &&
        (maker >= 0 || report.mark.phase() == RunMark::Phase::kAfterNode);
    if (was_left) {
      report.parked_node = maker;
      report.parked_signal = signal_number;
    }
    while (was_left) pause();
    report.is_other_thread = true;
  }
  const bool is_access = signal_number == SIGSEGV || signal_number == SIGBUS;
  if (is_ours) {
    // SI_KERNEL stands for addresses that are not valid at all.
    report.has_address =
        is_access && info->si_code > 0 && info->si_code != SI_KERNEL;
    report.address = reinterpret_cast<uintptr_t>(info->si_addr);
    report.signal = signal_number;
    report.is_memory_short = MemoryIsShort();
  }
  // An access recurs when the handler returns.
  std::signal(signal_number, SIG_DFL);
  if (info->si_code <= 0 || info->si_code == SI_KERNEL) raise(signal_number);
}

void CatchCrashes() {
  // The stack of the main thread: code that overflows its own cannot call a
  // handler there.
  static char stack_bytes[64 << 10];
  stack_t stack{};
  stack.ss_sp = stack_bytes;
  stack.ss_size = sizeof(stack_bytes);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = &OnCrash;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  for (const int signal_number : kCrashSignals) {
    struct sigaction before {};
    sigaction(signal_number, nullptr, &before);
    // A sanitizer of the build has a handler of its own, which stays.
    if ((before.sa_flags & SA_SIGINFO) == 0) {
      sigaction(signal_number, &action, nullptr);
    }
  }
}

// Blocks all signals, which are then waited for. Restores what was before, in
// either process.
class WaitedSignals {
 public:
  WaitedSignals() {
    sigfillset(&all_);
    sigprocmask(SIG_SETMASK, &all_, &mask_);
    sigaction(SIGCHLD, nullptr, &on_child_);
    // Where SIGCHLD is ignored, the kernel forgets how children end.
    std::signal(SIGCHLD, SIG_DFL);
  }
  void Restore() const {
    sigaction(SIGCHLD, &on_child_, nullptr);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }
  int Next(siginfo_t* info, const timespec& wait) const {
    int signal_number = 0;
    do {
      signal_number = sigtimedwait(&all_, info, &wait);
    } while (signal_number < 0 && errno == EINTR);
    return signal_number < 0 ? 0 : signal_number;
  }

 private:
  sigset_t all_{};
  sigset_t mask_{};
  struct sigaction on_child_ {};
};

// Whether the main thread of a process has ended and others go on: nothing
// would ever end it. A function may have called pthread_exit().
bool HasLostMainThread(pid_t process) {
  const std::string path = fmt::format("/proc/{}/stat", process);
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  // "1234 (nodewise) Z ...".
  char text[256] = {};
  const size_t bytes = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  const size_t name_end = std::string_view(text, bytes).rfind(") ");
  return name_end != std::string_view::npos && text[name_end + 2] == 'Z';
}

// In the process that waits.
class Supervisor {
 public:
  Supervisor(const WorkerReport& report, const WaitedSignals& signals)
      : report_(report), signals_(signals) {}

  // Returns the worker's wait status.
  int Wait() {
    int looks_at_end = 0;
    for (;;) {
      siginfo_t info{};
      const int signal_number = signals_.Next(&info, kLookAgain);
      if (signal_number != 0 && signal_number != SIGCHLD) Pass(info);
      int status = 0;
      const pid_t changed = waitpid(worker, &status, WNOHANG | WUNTRACED);
      if (changed < 0) return 0;
      if (changed == worker && !WIFSTOPPED(status)) {
        DrainSignals();
        return status;
      }
      if (changed == worker) StopWithWorker();
      if (signal_number != 0) continue;
      if (HasLostMainThread(worker)) {
        has_lost_main_thread_ = true;
        kill(worker, SIGKILL);
      }
      if (report_.finished < 0) continue;
      if (++looks_at_end > kMostLooksAtEnd) kill(worker, SIGKILL);
    }
  }

  // Whether this process was sent the signal from outside.
  bool HasReceived(int signal_number) const { return got_[signal_number]; }
  bool has_lost_main_thread() const { return has_lost_main_thread_; }
  // A signal that should have ended the worker, or 0.
  int EndingSignal() const {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      if (HasReceived(number)) return number;
    }
    return 0;
  }

  [[noreturn]] void EndBy(int signal_number) const {
    // The worker has left a core file where such are wanted.
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::fflush(stderr);
    std::signal(signal_number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    _exit(128 + signal_number);
  }

 private:
  void Pass(const siginfo_t& info) {
    const int number = info.si_signo;
    const bool is_sent = info.si_code <= 0;
    // A signal that the worker's own code sends is not the user's wish.
    if (is_sent && info.si_pid == worker) return;
    got_[number] = true;
    // A terminal sends these to the whole group, which is the worker's, too.
    constexpr int kOfTerminal[] = {SIGINT,  SIGQUIT, SIGTSTP,  SIGTTIN,
                                   SIGTTOU, SIGHUP,  SIGWINCH, SIGCONT};
    if (!is_sent && std::ranges::count(kOfTerminal, number) > 0) return;
    kill(worker, number);
  }

  // A terminal sends Ctrl-C to both, and the worker may be gone before this
  // process has looked.
  void DrainSignals() {
    siginfo_t info{};
    while (const int number = signals_.Next(&info, {0, 0})) {
      if (info.si_code > 0 || info.si_pid != worker) got_[number] = true;
    }
  }

  // The shell's job is this process: it stops as the worker has, and has the
  // worker go on when it is continued itself.
  static void StopWithWorker() {
    raise(SIGSTOP);
    kill(worker, SIGCONT);
  }

  const WorkerReport& report_;
  const WaitedSignals& signals_;
  std::bitset<NSIG + 1> got_;
  bool has_lost_main_thread_ = false;
};

// "crashed with SIGSEGV at address 0x10", "ended the process with exit status
// 0".
std::string DescribeExit(const WorkerReport& report, int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return fmt::format("ended the process with exit status {}",
                       WEXITSTATUS(wait_status));
  }
  const int signal_number = WTERMSIG(wait_status);
  std::string text = fmt::format("crashed with {}", SignalText(signal_number));
  if (report.signal != signal_number) return text;
  if (report.has_address) {
    text += " at address " + AddressText(report.address);
  }
  if (report.is_other_thread) {
    text += ", in a thread that it or a node before it made";
  }
  return text;
}

Finding DescribeEnd(const WorkerReport& report, int wait_status) {
  const RunMark::Phase phase = report.mark.phase();
  const bool is_signal = WIFSIGNALED(wait_status);
  NamedPlace place{report.mark.Where()};
  std::string how = DescribeExit(report, wait_status);
  if (phase == RunMark::Phase::kAfterNode) {
    // Memory that a node has spoiled may be met much later.
    how = fmt::format("{}, after this node, the last that ran, had returned",
                      is_signal ? "the process " + how : "something " + how);
  } else if (phase == RunMark::Phase::kOurs) {
    place.name = "nodewise";
  }
  if (is_signal && WTERMSIG(wait_status) == SIGBUS) {
    how += ", or a file became shorter while it was read";
  }
  return MakeFinding(finding_kinds::kCannotJudge, std::move(place),
                     std::move(how));
}

// Returns the exit status, or ends this process by a signal as the worker was.
int StatusOf(const WorkerReport& report, const Supervisor& supervisor,
             int wait_status, absl::FunctionRef<int(const Finding&)> show) {
  const int finished = report.finished;
  if (finished >= 0) {
    // The report has been shown. A sanitizer of the build may still object.
    const bool objects = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) > 0;
    return objects ? WEXITSTATUS(wait_status) : finished;
  }
  const int signal_number =
      WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  if (signal_number != 0 && signal_number != SIGBUS &&
      supervisor.HasReceived(signal_number)) {
    supervisor.EndBy(signal_number);
  }
  if (const int ending = supervisor.EndingSignal()) supervisor.EndBy(ending);
  if (signal_number == SIGPIPE) supervisor.EndBy(SIGPIPE);
  // No node is to blame then, and a second line would hide the first.
  if (report.is_memory_short) {
    const std::string place = report.mark.Where();
    return show(FindingOf(OutOfMemory(place.empty() ? "nodewise" : place)));
  }
  Finding end = DescribeEnd(report, wait_status);
  if (supervisor.has_lost_main_thread()) {
    end.found = "ended the thread that it was called on";
  }
  const int status = show(end);
  // Without any code but ours, it is a fault of ours, and looks like one.
  const bool is_our_fault = signal_number != 0 && signal_number != SIGBUS &&
                            signal_number != SIGKILL &&
                            !report.mark.has_loaded();
  if (is_our_fault) supervisor.EndBy(signal_number);
  return status;
}

// Shared with the forked process, so that it can be read when that is gone. No
// pages are reserved, since memory may be short already.
WorkerReport* MakeReport() {
  void* const memory =
      mmap(nullptr, sizeof(WorkerReport), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) WorkerReport;
}

}  // namespace

bool IsSupervised() { return IsWorker(); }

void NoteShortMemory() { report_of_worker->is_memory_short = true; }

std::string NoteOfLeftThread() {
  if (!IsWorker() || report_of_worker->parked_signal == 0) return "";
  const int64_t node = report_of_worker->parked_node;
  return fmt::format(
      "{} left a thread behind, which crashed with {}",
      node < 0 ? "a function"
               : report_of_worker->mark.TitleOf(static_cast<uint32_t>(node)),
      SignalText(report_of_worker->parked_signal));
}

int RunSupervised(absl::FunctionRef<int()> work,
                  absl::FunctionRef<int(const Finding&)> show) {
  report_of_worker = MakeReport();
  if (report_of_worker == nullptr) return work();
  const WaitedSignals signals;
  const pid_t parent = getpid();
  worker = fork();
  if (worker > 0) {
    Supervisor supervisor(*report_of_worker, signals);
    const int wait_status = supervisor.Wait();
    return StatusOf(*report_of_worker, supervisor, wait_status, show);
  }
  if (worker == 0) {
    worker = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have ended before the request took effect.
    if (getppid() != parent) _exit(2);
    CatchCrashes();
    RunMark::Use(&report_of_worker->mark);
  }
  signals.Restore();
  const int status = work();
  report_of_worker->finished = status;
  return status;
}

}  // namespace nodewise
