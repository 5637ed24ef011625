#include "nodewise/autotest/candidate.h"

#include <cstring>
#include <utility>

#include "contrib/lab/autotest/run_executor.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class Callable : public Candidate {
 public:
  Callable(std::string name, NetworkFunction function)
      : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const override { return name_; }
  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    for (const CandidateJob& job : jobs) {
      CandidateAnswer answer;
      for (const std::vector<NDArray>& set : job.sets) {
        answer.sets.push_back(function_(*job.network, set));
      }
      take(std::move(answer));
    }
  }

 private:
  const std::string name_;
  const NetworkFunction function_;
};

class WithBackward : public Candidate {
 public:
  WithBackward(std::unique_ptr<Candidate> inner, BackwardFunction backward)
      : inner_(std::move(inner)), backward_(std::move(backward)) {}

  const std::string& name() const override { return inner_->name(); }
  size_t jobs_at_once() const override { return inner_->jobs_at_once(); }
  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    for (size_t i = 0; i < jobs.size(); ++i) {
      CandidateAnswer answer = RunBackward(jobs[i]);
      if (answer.sets.empty()) {
        inner_->Run(jobs.subspan(i, 1), take);
      } else {
        take(std::move(answer));
      }
    }
  }

 private:
  // Returns no sets for what it has no gradient for.
  CandidateAnswer RunBackward(const CandidateJob& job) const {
    CandidateAnswer answer;
    if (job.backward == nullptr) return answer;
    for (const std::vector<NDArray>& set : job.sets) {
      answer.sets.push_back(backward_(*job.backward, set));
      if (absl::IsUnimplemented(answer.sets.back().status())) return {};
    }
    return answer;
  }

  const std::unique_ptr<Candidate> inner_;
  const BackwardFunction backward_;
};

class LoweredNetworks : public Candidate {
 public:
  LoweredNetworks(std::string name, LowerOptions options,
                  std::function<Ref<Library>()> make_library)
      : name_(std::move(name)),
        options_(std::move(options)),
        make_library_(std::move(make_library)) {}

  const std::string& name() const override { return name_; }
  // Nothing is gained by more, and memory of many has to be fetched again.
  size_t jobs_at_once() const override { return 1; }
  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    // Cases are small: threads would wait for each other.
    const OneDnnThreads one(1);
    for (const CandidateJob& job : jobs) {
      auto executor = ExecutorOf(*job.network);
      take(executor.ok() ? RunSets(job, executor->get())
                         : AllFail(job, executor.status()));
    }
  }

 private:
  absl::StatusOr<std::unique_ptr<GraphExecutor>> ExecutorOf(
      const Network& network) const {
    NODEWISE_ASSIGN_OR_RETURN(Lowered lowered,
                              Lower(network, "case", options_));
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor,
        GraphExecutor::Create(std::move(lowered.graph), make_library_(), {}));
    for (const NamedTensor& param : lowered.params) {
      NODEWISE_RETURN_IF_ERROR(executor->SetParam(param.name, *param.tensor));
    }
    return executor;
  }

  const std::string name_;
  const LowerOptions options_;
  const std::function<Ref<Library>()> make_library_;
};

}  // namespace

CandidateAnswer AllFail(const CandidateJob& job, const absl::Status& status) {
  return {std::vector<CandidateOutputs>(job.sets.size(), status)};
}

std::vector<CandidateAnswer> RunJobs(Candidate& candidate,
                                     absl::Span<const CandidateJob> jobs) {
  std::vector<CandidateAnswer> answers;
  candidate.Run(jobs, [&](CandidateAnswer answer) {
    answers.push_back(std::move(answer));
  });
  return answers;
}

CandidateAnswer RunSets(const CandidateJob& job, GraphExecutor* executor) {
  CandidateAnswer answer;
  for (const std::vector<NDArray>& set : job.sets) {
    answer.sets.push_back(RunExecutor(executor, set));
  }
  return answer;
}

CandidateOutputs RunExecutor(GraphExecutor* executor,
                             absl::Span<const NDArray> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
  }
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor->GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), output.CopyToHost());
  }
  return outputs;
}

bool HasEqualBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

std::unique_ptr<Candidate> CallableCandidate(std::string name,
                                             NetworkFunction function,
                                             BackwardFunction backward) {
  auto callable =
      std::make_unique<Callable>(std::move(name), std::move(function));
  if (backward == nullptr) return callable;
  return BackwardCandidate(std::move(callable), std::move(backward));
}

std::unique_ptr<Candidate> BackwardCandidate(std::unique_ptr<Candidate> inner,
                                             BackwardFunction backward) {
  return std::make_unique<WithBackward>(std::move(inner), std::move(backward));
}

std::unique_ptr<Candidate> LoweredCandidate(
    std::string name, LowerOptions options,
    std::function<Ref<Library>()> make_library) {
  return std::make_unique<LoweredNetworks>(std::move(name), std::move(options),
                                           std::move(make_library));
}

}  // namespace nodewise
