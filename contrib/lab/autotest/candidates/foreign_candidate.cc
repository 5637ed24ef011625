#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "fmt/format.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

struct Task {
  size_t job = 0;
  size_t set = 0;
};
using Tasks = absl::Span<const Task>;

// Whether a program takes several cases in one run is found out by asking it.
struct ForeignProgram {
  std::string name;
  ForeignCommand command;
  ForeignLimits limits;
  bool takes_cases = false;
};

// The functions of <cctype> take no negative char.
unsigned char Character(char c) { return static_cast<unsigned char>(c); }

// Returns the task whose names, "c12_...", a message has, if it is one alone.
std::optional<size_t> TaskNamed(std::string_view text, size_t count) {
  std::optional<size_t> named;
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    const bool begins = i == 0 || !std::isalnum(Character(text[i - 1]));
    if (text[i] != 'c' || !begins) continue;
    size_t number = 0;
    size_t end = i + 1;
    while (end < text.size() && std::isdigit(Character(text[end])) &&
           number < count) {
      number = 10 * number + static_cast<size_t>(text[end++] - '0');
    }
    if (end == i + 1 || end >= text.size() || text[end] != '_') continue;
    if (number >= count || named.value_or(number) != number) {
      return std::nullopt;
    }
    named = number;
  }
  return named;
}

// Jobs on their way through a program, and what has come of them. A program
// that is given many tasks and fails says nothing of most of them, so the tasks
// are parted until the one that fails is alone: first by the name in the
// message, then between jobs, and last within a job. To begin takes a program
// far longer than a small network does, so every run that is saved counts.
class ForeignBatch {
 public:
  ForeignBatch(const ForeignProgram& program, CandidateJobs jobs)
      : program_(program), jobs_(jobs) {
    for (const CandidateJob& job : jobs) {
      answers.push_back(AllFail(job, Unknown("not run")));
    }
  }

  void Run(Tasks tasks) {
    if (tasks.empty()) return;
    const absl::Status status =
        program_.takes_cases ? RunCases(tasks) : RunTogether(tasks);
    if (status.ok()) return;
    if (tasks.size() == 1) {
      Answer(tasks[0]) = status;
      return;
    }
    const auto named = TaskNamed(
        std::string_view(status.message().data(), status.message().size()),
        tasks.size());
    if (named.has_value()) {
      // Programs say what they do not take, most of the time.
      Run(tasks.subspan(*named, 1));
      if (!Answer(tasks[*named]).ok()) return RunWithout(tasks, *named);
    }
    if (tasks.front().job == tasks.back().job) {
      // Most jobs that fail do so with all numbers.
      Run(tasks.first(1));
      if (Answer(tasks[0]).ok()) return Run(tasks.subspan(1));
      for (const Task& task : tasks.subspan(1)) {
        Answer(task) = Answer(tasks[0]).status();
      }
      return;
    }
    const size_t middle = MiddleOf(tasks);
    Run(tasks.first(middle));
    Run(tasks.subspan(middle));
  }

  std::vector<CandidateAnswer> answers;  // By job.

 private:
  CandidateOutputs& Answer(const Task& task) {
    return answers[task.job].sets[task.set];
  }

  // Between two jobs, near the middle. REQUIRES: there are two.
  static size_t MiddleOf(Tasks tasks) {
    size_t at = tasks.size() / 2;
    while (at < tasks.size() && tasks[at].job == tasks[at - 1].job) {
      ++at;
    }
    if (at < tasks.size()) return at;
    at = tasks.size() / 2;
    while (tasks[at].job == tasks[at - 1].job) --at;
    return at;
  }

  // Runs all tasks without the one that failed and those of its job behind it,
  // which mostly fail as well.
  void RunWithout(Tasks tasks, size_t without) {
    const CandidateOutputs refused = Answer(tasks[without]);
    std::vector<Task> others;
    std::vector<Task> alike;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (i == without) continue;
      (tasks[i].job == tasks[without].job ? alike : others).push_back(tasks[i]);
    }
    if (!alike.empty()) {
      Run(Tasks(alike).first(1));
      if (Answer(alike[0]).ok()) {
        Run(Tasks(alike).subspan(1));
      } else {
        for (const Task& task : alike) Answer(task) = refused;
      }
    }
    Run(others);
  }

  // Gives the program one model for each task. Only a failure of the whole run
  // is returned; a task that fails alone has that as its answer.
  absl::Status RunCases(Tasks tasks) {
    std::vector<ForeignCase> cases;
    for (const Task& one : tasks) {
      cases.push_back({jobs_[one.job].network, jobs_[one.job].sets[one.set]});
    }
    NODEWISE_ASSIGN_OR_RETURN(
        auto outputs,
        RunForeignCases(program_.command, program_.limits, cases));
    for (size_t i = 0; i < tasks.size(); ++i) {
      Answer(tasks[i]) = std::move(outputs[i]);
    }
    return absl::OkStatus();
  }

  // Gives the program one model that joins those of all tasks; their inputs and
  // outputs lie one behind the other in it. The model fails if one of the tasks
  // does.
  absl::Status RunTogether(Tasks tasks) {
    std::vector<const Network*> networks;
    for (const Task& task : tasks) networks.push_back(jobs_[task.job].network);
    NODEWISE_ASSIGN_OR_RETURN(Network joined, JoinNetworks(networks));
    std::vector<NamedTensor> inputs;
    for (const Task& task : tasks) {
      for (const NDArray& tensor : jobs_[task.job].sets[task.set]) {
        const ValueId id = joined.inputs()[inputs.size()];
        inputs.push_back({joined.value(id).name, tensor});
      }
    }
    ForeignTarget target{program_.name, program_.command,
                         std::make_shared<const Network>(std::move(joined))};
    target.limits = program_.limits;
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              MakeForeignRunner(std::move(target)));
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(inputs));
    size_t at = 0;
    for (const Task& task : tasks) {
      std::vector<NDArray> outputs;
      for (size_t i = jobs_[task.job].network->outputs().size(); i > 0; --i) {
        outputs.push_back(std::move(result.outputs[at++].tensor));
      }
      Answer(task) = std::move(outputs);
    }
    return absl::OkStatus();
  }

  const ForeignProgram& program_;
  const CandidateJobs jobs_;
};

class ForeignNetworks : public Candidate {
 public:
  explicit ForeignNetworks(ForeignProgram program)
      : program_(std::move(program)) {}

  const std::string& name() const override { return program_.name; }
  // A program takes a second to begin, and milliseconds for a small network.
  size_t jobs_at_once() const override { return 64; }

  void Run(CandidateJobs jobs, Take take) override {
    // A single set takes one run in either way, and asking the program would
    // take another run.
    const bool is_one = jobs.size() == 1 && jobs[0].sets.size() == 1;
    if (!is_one && !has_asked_) {
      program_.takes_cases = ProbeCaseSupport();
      has_asked_ = true;
    }
    // A model has one version of each domain, so that tasks of different opsets
    // cannot be joined.
    std::map<std::vector<std::pair<std::string, int>>, std::vector<Task>>
        by_opsets;
    for (size_t job = 0; job < jobs.size(); ++job) {
      for (size_t set = 0; set < jobs[job].sets.size(); ++set) {
        std::vector<Task>& alike =
            program_.takes_cases ? by_opsets[{}]
                                 : by_opsets[jobs[job].network->data().opsets];
        alike.push_back({job, set});
      }
    }
    // Answers are handed out when all is done: parts of the jobs come in any
    // order.
    ForeignBatch batch(program_, jobs);
    for (const auto& [opsets, tasks] : by_opsets) batch.Run(tasks);
    for (CandidateAnswer& answer : batch.answers) take(std::move(answer));
  }

 private:
  bool ProbeCaseSupport() const {
    const auto task = MakeLeastTask();
    return task.ok() &&
           SupportsForeignCases(program_.command, program_.limits,
                                {&task->network, {&task->input, 1}});
  }

  ForeignProgram program_;
  bool has_asked_ = false;
};

}  // namespace

std::unique_ptr<Candidate> ForeignCandidate(std::string name,
                                            ForeignCommand command,
                                            ForeignLimits limits) {
  return std::make_unique<ForeignNetworks>(
      ForeignProgram{std::move(name), std::move(command), limits});
}

// Names are told apart by a prefix, which messages of a program name as well.
absl::StatusOr<Network> JoinNetworks(absl::Span<const Network* const> parts) {
  Network joined("cases");
  ValueIds outputs;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Network& network = *parts[i];
    if (i == 0) {
      for (const auto& [domain, version] : network.data().opsets) {
        NODEWISE_RETURN_IF_ERROR(joined.SetOpset(domain, version));
      }
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto made, AddCopy(network, fmt::format("c{}_", i), {}, &joined));
    outputs.insert(outputs.end(), made.begin(), made.end());
  }
  NODEWISE_RETURN_IF_ERROR(joined.SetOutputs(std::move(outputs)));
  return joined;
}

}  // namespace nodewise
