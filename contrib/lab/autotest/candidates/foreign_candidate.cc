#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "fmt/format.h"
#include "nodewise/foreign/foreign_cases.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// All runtimes of today have operators of this opset.
constexpr int kPlainOpset = 13;

// One set of one job.
struct Task {
  size_t job = 0;
  size_t set = 0;
};

class ForeignNetworks : public Candidate {
 public:
  ForeignNetworks(std::string name, ForeignCommand command,
                  ForeignLimits limits)
      : name_(std::move(name)), command_(std::move(command)), limits_(limits) {}

  const std::string& name() const override { return name_; }
  // A program takes a second to begin, and milliseconds for a small network.
  size_t jobs_at_once() const override { return 64; }

  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    const bool is_one = jobs.size() == 1 && jobs[0].sets.size() == 1;
    if (!is_one && !takes_cases_.has_value()) {
      takes_cases_ = AsksForCases();
    }
    std::vector<CandidateAnswer> answers;
    // A model has one version of each domain.
    std::map<std::vector<std::pair<std::string, int>>, std::vector<Task>>
        by_opsets;
    for (size_t job = 0; job < jobs.size(); ++job) {
      answers.push_back(AllFail(jobs[job], absl::UnknownError("not run")));
      for (size_t set = 0; set < jobs[job].sets.size(); ++set) {
        std::vector<Task>& alike =
            TakesCases() ? by_opsets[{}]
                         : by_opsets[jobs[job].network->data().opsets];
        alike.push_back({job, set});
      }
    }
    for (const auto& [opsets, tasks] : by_opsets) {
      RunTasks(jobs, tasks, &answers);
    }
    for (CandidateAnswer& answer : answers) take(std::move(answer));
  }

 private:
  bool TakesCases() const { return takes_cases_.value_or(false); }

  // Has the program run a Relu, and say then whether it takes cases.
  bool AsksForCases() const {
    Network network("relu");
    if (!network.SetOpset("", kPlainOpset).ok()) return false;
    const auto x = network.AddInput("x", TensorType(kFloat32, {1}));
    if (!x.ok()) return false;
    const auto y = network.Add(AllOperators(), ops::Relu{}, {*x}, "y");
    if (!y.ok() || !network.SetOutputs({*y}).ok()) return false;
    const auto number = NDArray::Empty({1}, kFloat32, kCpu);
    if (!number.ok()) return false;
    *number->As<float>() = 1;
    return TakesForeignCases(command_, limits_, {&network, {&*number, 1}});
  }

  void RunTasks(absl::Span<const CandidateJob> jobs,
                absl::Span<const Task> tasks,
                std::vector<CandidateAnswer>* answers) const {
    if (tasks.empty()) return;
    const absl::Status status = TakesCases()
                                    ? RunCases(jobs, tasks, answers)
                                    : RunTogether(jobs, tasks, answers);
    if (status.ok()) return;
    if (tasks.size() == 1) {
      (*answers)[tasks[0].job].sets[tasks[0].set] = status;
      return;
    }
    const auto named = TaskNamed(status, tasks.size());
    if (named.has_value()) {
      // Programs say what they do not take, most of the time.
      RunTasks(jobs, tasks.subspan(*named, 1), answers);
      if (!Answer(tasks[*named], answers).ok()) {
        return RunWithout(jobs, tasks, *named, answers);
      }
    }
    if (tasks.front().job == tasks.back().job) {
      // Most jobs that fail do so with all numbers.
      RunTasks(jobs, tasks.first(1), answers);
      if (!Answer(tasks[0], answers).ok()) {
        for (const Task& task : tasks.subspan(1)) {
          Answer(task, answers) = Answer(tasks[0], answers).status();
        }
        return;
      }
      return RunHalves(jobs, tasks.subspan(1), 0, answers);
    }
    // Between two jobs, near the middle.
    size_t middle = tasks.size() / 2;
    while (middle < tasks.size() &&
           tasks[middle].job == tasks[middle - 1].job) {
      ++middle;
    }
    if (middle == tasks.size()) {
      middle = tasks.size() / 2;
      while (tasks[middle].job == tasks[middle - 1].job) --middle;
    }
    RunHalves(jobs, tasks, middle, answers);
  }

  // Returns the task whose names, "c12_...", a message has, if it is one alone.
  static std::optional<size_t> TaskNamed(const absl::Status& status,
                                         size_t count) {
    const std::string text(status.message());
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
  static unsigned char Character(char c) {
    return static_cast<unsigned char>(c);
  }

  // Runs all tasks but one and those of its job behind it, which fail as it
  // does, most of the time.
  void RunWithout(absl::Span<const CandidateJob> jobs,
                  absl::Span<const Task> tasks, size_t without,
                  std::vector<CandidateAnswer>* answers) const {
    const CandidateOutputs refused = Answer(tasks[without], answers);
    std::vector<Task> others;
    std::vector<Task> alike;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (i == without) continue;
      (tasks[i].job == tasks[without].job ? alike : others).push_back(tasks[i]);
    }
    if (!alike.empty()) {
      RunTasks(jobs, absl::MakeConstSpan(alike).first(1), answers);
      if (Answer(alike[0], answers).ok()) {
        RunTasks(jobs, absl::MakeConstSpan(alike).subspan(1), answers);
      } else {
        for (const Task& task : alike) Answer(task, answers) = refused;
      }
    }
    RunTasks(jobs, others, answers);
  }

  static CandidateOutputs& Answer(const Task& task,
                                  std::vector<CandidateAnswer>* answers) {
    return (*answers)[task.job].sets[task.set];
  }

  void RunHalves(absl::Span<const CandidateJob> jobs,
                 absl::Span<const Task> tasks, size_t middle,
                 std::vector<CandidateAnswer>* answers) const {
    if (middle > 0) RunTasks(jobs, tasks.first(middle), answers);
    if (middle < tasks.size()) RunTasks(jobs, tasks.subspan(middle), answers);
  }

  // Gives the program a model of each; fails if it fails as a whole.
  absl::Status RunCases(absl::Span<const CandidateJob> jobs,
                        absl::Span<const Task> tasks,
                        std::vector<CandidateAnswer>* answers) const {
    std::vector<ForeignCase> cases;
    for (const Task& task : tasks) {
      cases.push_back({jobs[task.job].network, jobs[task.job].sets[task.set]});
    }
    NODEWISE_ASSIGN_OR_RETURN(std::vector<CandidateOutputs> outputs,
                              RunForeignCases(command_, limits_, cases));
    for (size_t i = 0; i < tasks.size(); ++i) {
      Answer(tasks[i], answers) = std::move(outputs[i]);
    }
    return absl::OkStatus();
  }

  // Gives the program one model of all; fails if it does.
  absl::Status RunTogether(absl::Span<const CandidateJob> jobs,
                           absl::Span<const Task> tasks,
                           std::vector<CandidateAnswer>* answers) const {
    std::vector<const Network*> networks;
    for (const Task& task : tasks) networks.push_back(jobs[task.job].network);
    NODEWISE_ASSIGN_OR_RETURN(Network joined, JoinNetworks(networks));
    std::vector<NamedTensor> inputs;
    size_t at = 0;
    for (const Task& task : tasks) {
      for (const NDArray& tensor : jobs[task.job].sets[task.set]) {
        inputs.push_back({joined.value(joined.inputs()[at++]).name, tensor});
      }
    }
    ForeignTarget target{name_, command_,
                         std::make_shared<const Network>(std::move(joined))};
    target.limits = limits_;
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              MakeForeignRunner(std::move(target)));
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(inputs));
    at = 0;
    for (const Task& task : tasks) {
      std::vector<NDArray> outputs;
      for (size_t i = 0; i < jobs[task.job].network->outputs().size(); ++i) {
        outputs.push_back(std::move(result.outputs[at++].tensor));
      }
      Answer(task, answers) = std::move(outputs);
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const ForeignCommand command_;
  const ForeignLimits limits_;
  std::optional<bool> takes_cases_;  // None: not asked yet.
};

}  // namespace

std::unique_ptr<Candidate> ForeignCandidate(std::string name,
                                            ForeignCommand command,
                                            ForeignLimits limits) {
  return std::make_unique<ForeignNetworks>(std::move(name), std::move(command),
                                           limits);
}

absl::StatusOr<Network> JoinNetworks(
    absl::Span<const Network* const> networks) {
  Network joined("cases");
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < networks.size(); ++i) {
    const Network& network = *networks[i];
    if (i == 0) {
      for (const auto& [domain, version] : network.data().opsets) {
        NODEWISE_RETURN_IF_ERROR(joined.SetOpset(domain, version));
      }
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        AddCopy(network, fmt::format("c{}_", i), {}, &joined));
    outputs.insert(outputs.end(), made.begin(), made.end());
  }
  NODEWISE_RETURN_IF_ERROR(joined.SetOutputs(std::move(outputs)));
  return joined;
}

}  // namespace nodewise
