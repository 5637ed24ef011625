#include "nodewise/foreign/foreign_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// How often the folder is looked at, and the process where the kernel cannot
// say that it has ended.
constexpr int64_t kLookNs = 100 * kNsPerMs;
constexpr int kWaitMs = 100;
constexpr int kWaitWithoutPidfdMs = 5;
constexpr int kMostPieces = 64;
// How much printed output is kept, and how much of that a message quotes.
constexpr size_t kKeptBytes = 4096;
constexpr size_t kQuotedLines = 3;
constexpr size_t kQuotedBytes = 500;

// Never one of the first three, so that giving a child its own of these
// overwrites none that is still needed.
OpenDescriptor BeyondFirstThree(int number) {
  OpenDescriptor owned(number);
  if (number < 0 || number > STDERR_FILENO) return owned;
  return OpenDescriptor(fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

struct Pipe {
  OpenDescriptor read, write;

  static absl::StatusOr<Pipe> Create(const std::string& name) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(name, "no pipe");
    Pipe made{BeyondFirstThree(ends[0]), BeyondFirstThree(ends[1])};
    if (made.read.get() >= 0 && made.write.get() >= 0) return made;
    return SystemError(name, "no pipe");
  }
};

// The end of what came through a pipe.
struct Captured {
  OpenDescriptor from = OpenDescriptor();
  std::string end = {};
  uint64_t bytes = 0;

  // Takes what is there, but not for ever from a process that never pauses;
  // closes the pipe at its end.
  void ReadAvailable() {
    char piece[1 << 14];
    for (int i = 0; i < kMostPieces && from.get() >= 0; ++i) {
      const ssize_t got = read(from.get(), piece, sizeof(piece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        from.Close();
        return;
      }
      bytes += static_cast<uint64_t>(got);
      end.append(piece, static_cast<size_t>(got));
      // The beginning is not needed: programs say at the end why they failed.
      if (end.size() > kKeptBytes) end.erase(0, end.size() - kKeptBytes);
      if (static_cast<size_t>(got) < sizeof(piece)) return;
    }
  }

  // Returns the last lines that say something.
  std::string Quoted() const {
    std::vector<std::string> lines;
    std::string_view rest = end;
    while (!rest.empty() && lines.size() < kQuotedLines) {
      const size_t newline = rest.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      std::string_view line = rest.substr(begin);
      rest = rest.substr(0, begin == 0 ? 0 : newline);
      const size_t first = line.find_first_not_of(" \t\r");
      if (first == std::string_view::npos) continue;
      line = line.substr(first);
      lines.push_back(Printable(line));
    }
    std::ranges::reverse(lines);
    std::string text;
    for (const std::string& line : lines) {
      text += (text.empty() ? "" : " / ") + line;
    }
    if (text.size() <= kQuotedBytes) return text;
    return "..." + text.substr(text.size() - kQuotedBytes);
  }
};

bool IsProgram(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// Looked up before the fork: afterwards nothing may be allocated.
absl::StatusOr<std::string> FindProgram(const ForeignProcess& process) {
  const std::string& program = process.arguments[0];
  if (program.find('/') != std::string::npos) {
    if (IsProgram(program)) return program;
    return NotFound("{}: {} is not a file that can be run, expected a program",
                    process.name, Printable(program));
  }
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, colon));
    const std::string file = (folder.empty() ? "." : folder) + "/" + program;
    if (IsProgram(file)) return file;
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  return NotFound(
      "{}: there is no program {} in PATH, expected one (or its path, with a "
      "slash)",
      process.name, Printable(program));
}

// All that a child needs is made before the fork: afterwards nothing may be
// allocated.
struct ChildPlan {
  const char* program;
  char* const* arguments;
  pid_t parent;
  int input, output, errors;  // What become its first three descriptors.
  int failed;                 // Where it writes why it did not become one.
  rlim_t most_file_bytes;
};

// Only calls that are safe after a fork of a process with several threads.
[[noreturn]] void BecomeProgram(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the call above, which then never takes
  // effect.
  if (getppid() != plan.parent) _exit(127);
  // The program must not inherit signals that this process ignores or handles.
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  rlimit file_size{};
  getrlimit(RLIMIT_FSIZE, &file_size);
  file_size.rlim_cur = std::min(file_size.rlim_max, plan.most_file_bytes);
  file_size.rlim_max = file_size.rlim_cur;
  setrlimit(RLIMIT_FSIZE, &file_size);
  dup2(plan.input, STDIN_FILENO);
  dup2(plan.output, STDOUT_FILENO);
  dup2(plan.errors, STDERR_FILENO);
#if defined(SYS_close_range)
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, kCloseOnExec);
#endif
  execve(plan.program, plan.arguments, environ);
  const int error = errno;
  [[maybe_unused]] const ssize_t written =
      write(plan.failed, &error, sizeof(error));
  _exit(127);
}

// How much lies in a folder; nothing of it is followed or opened.
struct FolderUse {
  uint64_t bytes = 0;
  size_t files = 0;
};
FolderUse FolderUseOf(const std::string& folder, size_t most_files) {
  FolderUse use;
  DIR* const stream = opendir(folder.c_str());
  if (stream == nullptr) return use;
  while (use.files <= most_files) {
    const dirent* const entry = readdir(stream);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    ++use.files;
    struct stat status;
    if (fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ==
        0) {
      use.bytes += static_cast<uint64_t>(status.st_size);
    }
  }
  closedir(stream);
  return use;
}

// A process from its start to its end. One thread looks at everything in turn:
// the pipes, the clock, the folder and the end of the process. Limits are
// therefore found out up to a tenth of a second late, which costs less than a
// thread for each.
class Supervision {
 public:
  explicit Supervision(const ForeignProcess& process) : process_(process) {}
  Supervision(const Supervision&) = delete;
  Supervision& operator=(const Supervision&) = delete;
  ~Supervision() {
    if (child_ > 0) Collect();
  }

  absl::Status Run() {
    NODEWISE_RETURN_IF_ERROR(Start());
    const std::optional<std::string> stopped = WaitForEnd();
    const std::optional<int> wait_status = Collect();
    output_.ReadAvailable();
    errors_.ReadAvailable();
    if (stopped.has_value()) return Failed(*stopped);
    if (const auto excess = FolderExcess()) return Failed(*excess);
    // Something else in this process may have collected it: then what it left
    // must speak for it.
    if (!wait_status.has_value()) return absl::OkStatus();
    if (WIFSIGNALED(*wait_status)) {
      return Failed(
          fmt::format("was ended by {}", NameOfSignal(WTERMSIG(*wait_status))));
    }
    if (WEXITSTATUS(*wait_status) == 0) return absl::OkStatus();
    return Failed(fmt::format("ended with status {}, expected 0",
                              WEXITSTATUS(*wait_status)));
  }

 private:
  absl::Status Start() {
    NODEWISE_ASSIGN_OR_RETURN(const std::string program, FindProgram(process_));
    NODEWISE_ASSIGN_OR_RETURN(Pipe output, Pipe::Create(process_.name));
    NODEWISE_ASSIGN_OR_RETURN(Pipe errors, Pipe::Create(process_.name));
    NODEWISE_ASSIGN_OR_RETURN(Pipe failed, Pipe::Create(process_.name));
    // A program that asks a question gets an end of file and not the keyboard
    // of the user.
    const OpenDescriptor input =
        BeyondFirstThree(open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::vector<char*> arguments;
    for (const std::string& argument : process_.arguments) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    const ChildPlan plan = {program.c_str(),    arguments.data(),
                            getpid(),           input.get(),
                            output.write.get(), errors.write.get(),
                            failed.write.get(), process_.most_file_bytes};
    child_ = fork();
    if (child_ < 0) return SystemError(process_.name, "cannot start");
    if (child_ == 0) BecomeProgram(plan);
    // Done on both sides, so that the group exists no matter which comes first.
    setpgid(child_, child_);
    running_ = LeftBehind::ProcessGroup(child_);
    output_.from = std::move(output.read);
    errors_.from = std::move(errors.read);
    for (const Captured* captured : {&output_, &errors_}) {
      fcntl(captured->from.get(), F_SETFL, O_NONBLOCK);
    }
    failed.write.Close();
    int error = 0;
    // This pipe closes by itself when the child becomes the program, so that
    // nothing to read means success.
    if (read(failed.read.get(), &error, sizeof(error)) !=
        static_cast<ssize_t>(sizeof(error))) {
      return absl::OkStatus();
    }
    return NotFound("{}: cannot run {}: {}", process_.name, program,
                    std::strerror(error));
  }

  // Returns why the process must be stopped; none if it has ended by itself.
  std::optional<std::string> WaitForEnd() {
    const int64_t start_ns = ClockNanoseconds();
    const OpenDescriptor ended(
        static_cast<int>(syscall(SYS_pidfd_open, child_, 0)));
    int64_t looked_ns = start_ns;
    while (!HasEnded()) {
      pollfd wanted[] = {{output_.from.get(), POLLIN, 0},
                         {errors_.from.get(), POLLIN, 0},
                         {ended.get(), POLLIN, 0}};
      poll(wanted, std::size(wanted),
           ended.get() >= 0 ? kWaitMs : kWaitWithoutPidfdMs);
      output_.ReadAvailable();
      errors_.ReadAvailable();
      const int64_t now_ns = ClockNanoseconds();
      if (now_ns - start_ns > process_.time_limit_ms * kNsPerMs) {
        return fmt::format("had not ended after {} ms and was stopped",
                           process_.time_limit_ms);
      }
      if (output_.bytes + errors_.bytes > process_.most_printed_bytes) {
        return fmt::format("printed more than {} bytes and was stopped",
                           process_.most_printed_bytes);
      }
      if (now_ns - looked_ns < kLookNs) continue;
      looked_ns = now_ns;
      if (auto excess = FolderExcess()) return excess;
    }
    return std::nullopt;
  }

  bool HasEnded() const {
    siginfo_t info{};
    const int rc = waitid(P_PID, static_cast<id_t>(child_), &info,
                          WEXITED | WNOHANG | WNOWAIT);
    return (rc == 0 && info.si_pid == child_) || (rc != 0 && errno == ECHILD);
  }

  // Kills what is left of the group and returns how the process ended; none if
  // something else has collected it.
  std::optional<int> Collect() {
    const pid_t child = std::exchange(child_, -1);
    // As long as it is not collected, the number is still its own, and its
    // group's, which it has been in since before it became the program.
    kill(-child, SIGKILL);
    running_.Forget();
    int wait_status = 0;
    pid_t got = -1;
    do {
      got = waitpid(child, &wait_status, 0);
    } while (got < 0 && errno == EINTR);
    if (got != child) return std::nullopt;
    return wait_status;
  }

  // The system bounds single files alone, so the sum is looked at from outside.
  std::optional<std::string> FolderExcess() const {
    const FolderUse use =
        FolderUseOf(process_.folder, process_.most_folder_files);
    if (use.files > process_.most_folder_files) {
      return fmt::format("wrote more than {} files, expected no more",
                         process_.most_folder_files);
    }
    if (use.bytes > process_.most_folder_bytes) {
      return fmt::format("wrote {} bytes, expected {} at most", use.bytes,
                         process_.most_folder_bytes);
    }
    return std::nullopt;
  }

  static std::string NameOfSignal(int signal) {
    const char* const name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal)
                           : fmt::format("SIG{}", name);
  }

  // Text that it wrote to stdout stands in for stderr where that is empty.
  absl::Status Failed(const std::string& how) const {
    std::string quoted = errors_.Quoted();
    if (quoted.empty()) quoted = output_.Quoted();
    return Unavailable("{}: {}{}{}", process_.name, how,
                       quoted.empty() ? ", and had printed nothing"
                                      : "; the last that it printed: ",
                       quoted);
  }

  const ForeignProcess& process_;
  pid_t child_ = -1;
  LeftBehind running_;
  Captured output_, errors_;
};

}  // namespace

absl::Status RunForeignProcess(const ForeignProcess& process) {
  if (process.arguments.empty()) {
    return absl::InvalidArgumentError(
        process.name + ": found no command, expected a program to run");
  }
  return Supervision(process).Run();
}

}  // namespace nodewise
