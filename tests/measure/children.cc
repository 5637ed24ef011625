#include "tests/measure/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "tests/measure/fault_source.h"
#include "tests/measure/run_case.h"

namespace nodewise {
namespace {

using Clock = std::chrono::steady_clock;
using Batch = std::deque<Case>;
constexpr size_t kMostInBatch = 16;
constexpr int kPollMs = 200;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool IsDangerous(const Case& one) {
  if (one.what != Case::What::kFault) return one.what == Case::What::kFixture;
  const auto source = FindFaultSource(one.kind);
  return source.ok() && (*source)->is_dangerous;
}

std::deque<Batch> BatchesOf(const std::vector<Case>& cases) {
  std::deque<Batch> batches;
  std::map<std::string, size_t> open;  // By subject, the place of the last.
  for (const Case& one : cases) {
    if (IsDangerous(one)) {
      batches.push_back({one});
      continue;
    }
    const auto found = open.find(one.subject);
    if (found != open.end() && batches[found->second].size() < kMostInBatch) {
      batches[found->second].push_back(one);
      continue;
    }
    open[one.subject] = batches.size();
    batches.push_back({one});
  }
  return batches;
}

// A child, and the cases that it has not answered.
struct Child {
  pid_t pid = 0;
  int output = -1;
  Batch cases;
  bool is_alone = false;  // It was given a single case.
  std::string read;       // What there is of a line that has not ended.
  Clock::time_point last_line;
  bool is_hung = false;
};

class Children {
 public:
  Children(const std::vector<Case>& cases, const ChildOptions& options,
           const std::function<void(const Result&)>& take)
      : options_(options), take_(take), waiting_(BatchesOf(cases)) {}

  absl::Status Run() {
    const Clock::time_point begin = Clock::now();
    while (!waiting_.empty() || !running_.empty()) {
      const bool is_over =
          options_.seconds > 0 && SecondsSince(begin) > options_.seconds;
      if (is_over && running_.empty()) break;
      while (!is_over && !waiting_.empty() && running_.size() < options_.jobs) {
        if (!Start()) {
          return absl::UnavailableError(fmt::format("{}: cannot be started: {}",
                                                    options_.program,
                                                    std::strerror(errno)));
        }
      }
      Wait();
    }
    return absl::OkStatus();
  }

 private:
  // It is executed anew, so that it has run nothing before: what runs in
  // threads of OpenMP does not survive a mere fork.
  bool Start() {
    auto child = std::make_unique<Child>();
    child->cases = std::move(waiting_.front());
    child->is_alone = child->cases.size() == 1;
    child->last_line = Clock::now();
    waiting_.pop_front();
    std::vector<std::string> words = {
        options_.program, kChildFlag, options_.folders.models,
        options_.folders.scratch, options_.folders.python};
    for (const Case& one : child->cases) words.push_back(one.ToString());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    child->pid = fork();
    if (child->pid < 0) return false;
    if (child->pid == 0) {
      // When this program is ended, its children must end as well.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Several children with threads of their own would wait for each other.
      if (options_.jobs > 1) setenv("TVM_NUM_THREADS", "1", /*replace=*/0);
      dup2(ends[1], STDOUT_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    child->output = ends[0];
    running_.push_back(std::move(child));
    return true;
  }

  void Wait() {
    std::vector<pollfd> polled;
    for (const auto& child : running_) {
      polled.push_back({child->output, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kPollMs);
    for (size_t i = polled.size(); i-- > 0;) {
      Child& child = *running_[i];
      if (polled[i].revents != 0 && !Read(&child)) {
        Finish(&child);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (SecondsSince(child.last_line) > LimitOf(child)) {
        // It is read to its end the next time.
        child.is_hung = true;
        kill(child.pid, SIGKILL);
      }
    }
  }

  double LimitOf(const Child& child) const {
    const bool may_hang =
        !child.cases.empty() && IsDangerous(child.cases.front());
    return may_hang ? options_.dangerous_seconds : options_.case_seconds;
  }

  // Returns false at the end.
  bool Read(Child* child) {
    char buffer[4096];
    const ssize_t count = read(child->output, buffer, sizeof(buffer));
    if (count <= 0) return false;
    child->read.append(buffer, static_cast<size_t>(count));
    size_t end = 0;
    while ((end = child->read.find('\n')) != std::string::npos) {
      const auto result = ParseResult(child->read.substr(0, end));
      child->read.erase(0, end + 1);
      // What libraries print is not a result.
      if (!result.ok() || child->cases.empty()) continue;
      if (result->id != child->cases.front()) continue;
      child->last_line = Clock::now();
      child->cases.pop_front();
      take_(*result);
    }
    return true;
  }

  void Finish(Child* child) {
    close(child->output);
    int status = 0;
    waitpid(child->pid, &status, 0);
    if (child->cases.empty()) return;
    const Case first = child->cases.front();
    child->cases.pop_front();
    if (!child->cases.empty()) waiting_.push_front(std::move(child->cases));
    if (!child->is_alone) {
      waiting_.push_front({first});
      return;
    }
    Result result;
    result.id = first;
    result.outcome =
        child->is_hung ? Result::Outcome::kHung : Result::Outcome::kDied;
    result.text = WIFSIGNALED(status)
                      ? fmt::format("signal {}", WTERMSIG(status))
                      : fmt::format("exit status {}", WEXITSTATUS(status));
    take_(result);
  }

  const ChildOptions& options_;
  const std::function<void(const Result&)>& take_;
  std::deque<Batch> waiting_;
  std::vector<std::unique_ptr<Child>> running_;
};

}  // namespace

absl::Status RunInChildren(const std::vector<Case>& cases,
                           const ChildOptions& options,
                           const std::function<void(const Result&)>& take) {
  return Children(cases, options, take).Run();
}

int RunAsChild(int argc, char** argv) {
  if (argc < 5) return 2;
  KeepFreedMemory();
  CaseRunner runner({argv[2], argv[3], argv[4]});
  for (int i = 5; i < argc; ++i) {
    const auto wanted = ParseCase(argv[i]);
    if (!wanted.ok()) return 2;
    std::printf("%s\n", runner.Run(*wanted).ToLine().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace nodewise
