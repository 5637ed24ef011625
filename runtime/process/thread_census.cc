#include "nodewise/process/thread_census.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

std::atomic<const ThreadCensus*> current{nullptr};

bool IsOpenMp(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libgomp") || name.starts_with("libomp") ||
         name.starts_with("libiomp");
}

// Whether a thread waits in OpenMP's code, where its threads are between two
// parallel loops, or has ended.
bool WaitsInOpenMp(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/syscall", thread));
  std::string words;
  if (!file || !std::getline(file, words)) return true;
  // "running", or the call, its arguments, the stack and where it came from.
  const size_t last = words.rfind(' ');
  if (last == std::string::npos) return false;
  const uintptr_t place = std::strtoull(words.c_str() + last, nullptr, 16);
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(place), &info) != 0 &&
         info.dli_fname != nullptr && IsOpenMp(info.dli_fname);
}

bool IsOpenMpThread() {
  constexpr int kMostFrames = 64;
  constexpr int kAtBottom = 4;
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  for (int i = std::max(0, count - kAtBottom); i < count; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) != 0 && info.dli_fname != nullptr &&
        IsOpenMp(info.dli_fname)) {
      return true;
    }
  }
  return false;
}

// A folder has a link from each folder in it, so that this need not read it.
size_t CountThreads() {
  struct stat status {};
  return stat("/proc/self/task", &status) == 0 ? status.st_nlink : 0;
}

std::set<pid_t> Threads() {
  std::error_code ignored;
  const auto numbers = NumbersInFolder("/proc/self/task", &ignored);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

ThreadCensus::ThreadCensus() : known_(Threads()), count_(CountThreads()) {
  // The first call loads a library, which no signal handler should.
  void* frame = nullptr;
  (void)backtrace(&frame, 1);
  current = this;
}

ThreadCensus::~ThreadCensus() { current = nullptr; }

const ThreadCensus* ThreadCensus::Current() { return current; }

// Counting is cheap and is done after each node; the list is read only when the
// count is another.
void ThreadCensus::Note(uint32_t node) {
  const size_t count = CountThreads();
  if (count == count_) return;
  count_ = count;
  for (const pid_t thread : Threads()) {
    if (!known_.insert(thread).second) continue;
    const size_t place = num_strays_;
    if (place == kMostStrays) return;
    strays_[place].node = node;
    strays_[place].thread = thread;
    ++num_strays_;
  }
}

// Threads of our pool and of OpenMP belong to no node, even if they first
// appear while one runs.
std::optional<uint32_t> ThreadCensus::FirstMaker() const {
  for (size_t i = 0; i < num_strays_; ++i) {
    const pid_t thread = strays_[i].thread;
    if (!IsPoolWorker(thread) && !WaitsInOpenMp(thread)) {
      return strays_[i].node;
    }
  }
  return std::nullopt;
}

// Reads only the array and the atomics, since it may run in a signal handler.
std::optional<uint32_t> ThreadCensus::MakerOfThisThread() const {
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  for (size_t i = 0; i < num_strays_; ++i) {
    if (strays_[i].thread != thread) continue;
    if (IsPoolWorker() || IsOpenMpThread()) return std::nullopt;
    return strays_[i].node;
  }
  return std::nullopt;
}

}  // namespace nodewise
