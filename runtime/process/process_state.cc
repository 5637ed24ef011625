#include "nodewise/process/process_state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Lines that change only if code changes them; others, such as memory, change
// by themselves.
constexpr const char* kLines[] = {"Umask",      "Uid",     "Gid",
                                  "Groups",     "CapEff",  "CapPrm",
                                  "NoNewPrivs", "Seccomp", "Cpus_allowed"};
constexpr int kTimers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
constexpr std::pair<int, const char*> kLimits[] = {
    {RLIMIT_AS, "address space"},  {RLIMIT_CPU, "processor time"},
    {RLIMIT_DATA, "data"},         {RLIMIT_FSIZE, "size of a file"},
    {RLIMIT_NOFILE, "open files"}, {RLIMIT_NPROC, "processes"},
    {RLIMIT_STACK, "stack"},       {RLIMIT_MEMLOCK, "locked memory"}};
// A function may keep a few files open for its next call. This many are a leak
// that leaves others without any.
constexpr size_t kManyDescriptors = 64;

// The calling thread's own lines: some of them differ between threads.
std::map<std::string, std::string> ReadLines() {
  std::map<std::string, std::string> lines;
  std::ifstream file("/proc/thread-self/status");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, colon);
    for (const char* wanted : kLines) {
      if (name != wanted) continue;
      // Some have nothing behind the colon.
      const size_t value = line.find_first_not_of(" \t", colon + 1);
      lines[name] = value == std::string::npos ? "" : line.substr(value);
    }
  }
  return lines;
}

// Empty if it cannot be told.
std::string WorkingFolder() {
  std::error_code error;
  const auto folder = std::filesystem::current_path(error);
  if (error == std::errc::no_such_file_or_directory) return "gone";
  return error ? "" : folder.string();
}

// A hash is enough to tell that it changed, and does not keep a copy of what
// may be secret.
size_t HashOfEnvironment() {
  size_t hash = 0;
  for (char** variable = environ; variable != nullptr && *variable != nullptr;
       ++variable) {
    // A sum, since the order of the variables does not matter.
    hash += std::hash<std::string_view>()(*variable);
  }
  return hash;
}

std::string LimitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit);
}

bool IsSameAction(const struct sigaction& a, const struct sigaction& b) {
  // The C library adds a flag of its own, SA_RESTORER, to what it sets.
  constexpr int kOurs = SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK |
                        SA_RESTART | SA_NODEFER |
                        static_cast<int>(SA_RESETHAND);
  return a.sa_sigaction == b.sa_sigaction &&
         (a.sa_flags & kOurs) == (b.sa_flags & kOurs);
}

}  // namespace

// Called before the first node and after each one, so it reads what system
// calls tell and writes nothing.
ProcessState ProcessState::Capture() {
  ProcessState state;
  state.folder_ = WorkingFolder();
  state.lines_ = ReadLines();
  std::error_code error;
  constexpr char kDescriptors[] = "/proc/self/fd";
  std::vector<int> numbers = NumbersInFolder(kDescriptors, &error);
  // A shortage of the system that lasts a moment is not what a function has
  // used up.
  if (error == std::errc::too_many_files_open) {
    numbers = NumbersInFolder(kDescriptors, &error);
  }
  state.has_all_descriptors_ = !error;
  state.has_no_descriptor_left_ = error == std::errc::too_many_files_open;
  for (const int number : numbers) {
    // The list has the descriptor that it was read through, closed by now.
    const int flags = fcntl(number, F_GETFL);
    if (flags < 0) continue;
    struct stat status {};
    std::optional<Descriptor>& descriptor = state.descriptors_[number];
    if (fstat(number, &status) == 0) {
      descriptor = {status.st_dev, status.st_ino, flags};
    }
  }
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, nullptr, &state.actions_[static_cast<size_t>(number)]);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &state.mask_);
  for (size_t i = 0; i < state.limits_.size(); ++i) {
    getrlimit(static_cast<__rlimit_resource>(i), &state.limits_[i]);
  }
  for (size_t i = 0; i < state.timers_.size(); ++i) {
    itimerval timer{};
    getitimer(static_cast<__itimer_which>(kTimers[i]), &timer);
    state.timers_[i] =
        timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0;
  }
  const char* const locale = std::setlocale(LC_ALL, nullptr);
  state.locale_ = locale == nullptr ? "" : locale;
  state.thread_locale_ = uselocale(nullptr);
  state.environment_ = HashOfEnvironment();
  return state;
}

// A descriptor that was closed and whose number is in use again shows by its
// device and inode.
void ProcessState::AddDescriptorChanges(const ProcessState& later,
                                        Changes* changes) const {
  if (later.has_no_descriptor_left_ && !has_no_descriptor_left_) {
    changes->push_back("no more file can be opened");
  }
  if (!has_all_descriptors_ || !later.has_all_descriptors_) return;
  size_t kept = 0;
  for (const auto& [number, before] : descriptors_) {
    const auto now = later.descriptors_.find(number);
    if (now == later.descriptors_.end()) {
      changes->push_back(fmt::format("descriptor {} is closed", number));
      continue;
    }
    ++kept;
    if (!before.has_value() || !now->second.has_value()) continue;
    if (now->second->device != before->device ||
        now->second->inode != before->inode) {
      changes->push_back(fmt::format("descriptor {} is another file", number));
    } else if (now->second->flags != before->flags) {
      changes->push_back(fmt::format("descriptor {} has other flags", number));
    }
  }
  const size_t added = later.descriptors_.size() - kept;
  if (added >= kManyDescriptors) {
    changes->push_back(fmt::format("{} are open", CountOf(added, "more file")));
  }
}

void ProcessState::AddSignalChanges(const ProcessState& later,
                                    Changes* changes) const {
  std::vector<std::string> blocked;
  std::vector<std::string> let_through;
  for (int number = 1; number < NSIG; ++number) {
    const auto i = static_cast<size_t>(number);
    if (!IsSameAction(actions_[i], later.actions_[i])) {
      changes->push_back(
          fmt::format("{} has another action", SignalText(number)));
    }
    const bool was = sigismember(&mask_, number) == 1;
    const bool is = sigismember(&later.mask_, number) == 1;
    if (is && !was) blocked.push_back(SignalText(number));
    if (was && !is) let_through.push_back(SignalText(number));
  }
  constexpr size_t kNamed = 3;
  if (!blocked.empty()) {
    changes->push_back("blocked signals: " + ListOf(blocked, kNamed));
  }
  if (!let_through.empty()) {
    changes->push_back("signals no more blocked: " +
                       ListOf(let_through, kNamed));
  }
}

// Limits without a name here are told by their number.
void ProcessState::AddLimitChanges(const ProcessState& later,
                                   Changes* changes) const {
  for (size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i].rlim_cur == later.limits_[i].rlim_cur &&
        limits_[i].rlim_max == later.limits_[i].rlim_max) {
      continue;
    }
    std::string name = fmt::format("resource {}", i);
    for (const auto& [number, known] : kLimits) {
      if (number == static_cast<int>(i)) name = known;
    }
    changes->push_back(fmt::format("the limit of {} is {}, which was {}", name,
                                   LimitText(later.limits_[i].rlim_cur),
                                   LimitText(limits_[i].rlim_cur)));
  }
}

// The folder and the rights come first and single descriptors last, since
// messages name only the first few changes.
std::vector<std::string> ProcessState::ChangesIn(
    const ProcessState& later) const {
  std::vector<std::string> changes;
  const bool knows_folder = !folder_.empty() && !later.folder_.empty();
  if (knows_folder && folder_ != later.folder_) {
    changes.push_back(fmt::format("the working folder is {}, which was {}",
                                  later.folder_, folder_));
  }
  for (const auto& [name, before] : lines_) {
    const auto now = later.lines_.find(name);
    if (now == later.lines_.end() || now->second == before) continue;
    changes.push_back(
        fmt::format("{} is {}, which was {}", name, now->second, before));
  }
  AddLimitChanges(later, &changes);
  AddSignalChanges(later, &changes);
  for (size_t i = 0; i < timers_.size(); ++i) {
    if (later.timers_[i] && !timers_[i]) changes.push_back("a timer runs");
  }
  if (locale_ != later.locale_ || thread_locale_ != later.thread_locale_) {
    changes.push_back(
        fmt::format("the locale is {}, which was {}", later.locale_, locale_));
  }
  if (environment_ != later.environment_) {
    changes.push_back("the environment has other variables");
  }
  AddDescriptorChanges(later, &changes);
  return changes;
}

// Failures are ignored: a limit that was lowered for good cannot be raised, and
// the next node is judged by the state as it is then.
void ProcessState::Restore() const {
  if (!folder_.empty()) (void)!chdir(folder_.c_str());
  const auto mask = lines_.find("Umask");
  if (mask != lines_.end()) {
    umask(static_cast<mode_t>(std::strtoul(mask->second.c_str(), nullptr, 8)));
  }
  for (size_t i = 0; i < limits_.size(); ++i) {
    setrlimit(static_cast<__rlimit_resource>(i), &limits_[i]);
  }
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, &actions_[static_cast<size_t>(number)], nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  for (size_t i = 0; i < timers_.size(); ++i) {
    const itimerval off{};
    if (!timers_[i]) {
      setitimer(static_cast<__itimer_which>(kTimers[i]), &off, nullptr);
    }
  }
  std::setlocale(LC_ALL, locale_.c_str());
  uselocale(thread_locale_);
}

}  // namespace nodewise
