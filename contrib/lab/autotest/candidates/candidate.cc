#include "nodewise/autotest/candidate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

// A candidate that is a function, for programs that test their own kernels.
class Callable : public Candidate {
 public:
  Callable(std::string name, NetworkFunction function)
      : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const override { return name_; }
  void Run(CandidateJobs jobs, Take take) override {
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

// Gradients go job by job, since the function says only when it is asked that
// it does not know one.
class WithBackward : public OuterCandidate {
 public:
  WithBackward(std::unique_ptr<Candidate> inner, BackwardFunction backward)
      : OuterCandidate(std::move(inner)), backward_(std::move(backward)) {}

  void Run(CandidateJobs jobs, Take take) override {
    for (size_t i = 0; i < jobs.size(); ++i) {
      CandidateAnswer answer = RunBackward(jobs[i]);
      if (answer.sets.empty()) {
        inner().Run(jobs.subspan(i, 1), take);
      } else {
        take(std::move(answer));
      }
    }
  }

 private:
  // Returns an answer without sets if the function has no gradient for the job.
  CandidateAnswer RunBackward(const CandidateJob& job) const {
    CandidateAnswer answer;
    if (job.backward == nullptr) return answer;
    for (const std::vector<NDArray>& set : job.sets) {
      answer.sets.push_back(backward_(*job.backward, set));
      if (absl::IsUnimplemented(answer.sets.back().status())) return {};
    }
    return answer;
  }

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
  // More jobs at once would gain nothing, and their tensors would not all stay
  // in the caches.
  size_t jobs_at_once() const override { return 1; }
  void Run(CandidateJobs jobs, Take take) override {
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
    NODEWISE_ASSIGN_OR_RETURN(Lowered made, Lower(network, "case", options_));
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor,
        GraphExecutor::Create(std::move(made.graph), make_library_(), {}));
    for (const NamedTensor& param : made.params) {
      NODEWISE_RETURN_IF_ERROR(executor->SetParam(param.name, *param.tensor));
    }
    return executor;
  }

  const std::string name_;
  const LowerOptions options_;
  const std::function<Ref<Library>()> make_library_;
};

// All networks of a call become one file of C and one library. Those without C
// are left out, and fail by themselves; a file that does not compile is halved
// until the network at fault is alone.
class EmittedNetworks : public Candidate {
 public:
  EmittedNetworks(const OpSet& ops, std::shared_ptr<const CCompiler> compiler,
                  std::string optimisation, LowerOptions lowering)
      : ops_(ops),
        compiler_(std::move(compiler)),
        optimisation_(std::move(optimisation)),
        lowering_(std::move(lowering)) {}

  const std::string& name() const override { return name_; }
  // A compiler takes as long to begin as for some tens of small functions.
  size_t jobs_at_once() const override { return 128; }

  void Run(CandidateJobs jobs, Take take) override {
    // A library that was compiled with flags such as -ffast-math changes the
    // float environment that candidates run in, and the next one must not
    // inherit that.
    const KeepCandidateFloats kept;
    std::vector<absl::StatusOr<Lowered>> lowered;
    for (const CandidateJob& job : jobs) {
      lowered.push_back(LowerForC(*job.network));
    }
    const auto loaded = Compile(&lowered);
    // A compiler that is not there fails for any half as well.
    const bool is_ours = !loaded.ok() && !absl::IsUnavailable(loaded.status());
    if (is_ours && jobs.size() > 1 && HasC(lowered)) {
      Run(jobs.first(jobs.size() / 2), take);
      return Run(jobs.subspan(jobs.size() / 2), take);
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      const absl::Status status =
          lowered[i].ok() ? loaded.status() : lowered[i].status();
      take(status.ok() ? RunOne(jobs[i], *lowered[i], *loaded)
                       : AllFail(jobs[i], status));
    }
  }

 private:
  static bool HasC(const std::vector<absl::StatusOr<Lowered>>& all) {
    return std::ranges::any_of(all, [](const auto& one) { return one.ok(); });
  }

  // The text of EmitC is thrown away here: it only tells whether this network
  // has C, before all of them become one file.
  absl::StatusOr<Lowered> LowerForC(const Network& network) const {
    NODEWISE_ASSIGN_OR_RETURN(Lowered made, Lower(network, "case", lowering_));
    NODEWISE_RETURN_IF_ERROR(EmitC(made.graph, ops_).status());
    return made;
  }

  // The graphs are changed as well: in the one file each function has a name of
  // its own, which its node has to call.
  absl::StatusOr<Ref<Library>> Compile(
      std::vector<absl::StatusOr<Lowered>>* lowered) const {
    std::vector<Graph*> graphs;
    for (auto& one : *lowered) {
      if (one.ok()) graphs.push_back(&one->graph);
    }
    if (graphs.empty()) return Unimplemented("no C");
    NODEWISE_ASSIGN_OR_RETURN(const std::string source,
                              EmitTogether(absl::MakeSpan(graphs), ops_));
    NODEWISE_ASSIGN_OR_RETURN(const std::string library,
                              compiler_->Compile(source, optimisation_));
    absl::StatusOr<Ref<Module>> module = LoadModule(library);
    // The code stays mapped when its file is gone.
    RemoveTree(library.c_str());
    NODEWISE_RETURN_IF_ERROR(module.status());
    return LibraryOf(*std::move(module));
  }

  static CandidateAnswer RunOne(const CandidateJob& job, const Lowered& lowered,
                                const Ref<Library>& library) {
    auto executor = GraphExecutor::Create(lowered.graph, library);
    absl::Status status = executor.status();
    if (status.ok()) {
      status = (*executor)->LoadParams(Params{lowered.params}).status();
    }
    return status.ok() ? RunSets(job, executor->get()) : AllFail(job, status);
  }

  const OpSet& ops_;
  const std::shared_ptr<const CCompiler> compiler_;
  const std::string optimisation_;
  const LowerOptions lowering_;
  const std::string name_ = "c";
};

// Networks that a pass fails on do not reach the inner candidate, so each of
// its answers has to be put back at the place of its job. The inner candidate
// is not asked for gradients: a rewritten network is not the gradient of the
// case any more.
class RewrittenNetworks : public OuterCandidate {
 public:
  RewrittenNetworks(std::unique_ptr<Candidate> inner, std::vector<Pass> passes)
      : OuterCandidate(std::move(inner)), passes_(std::move(passes)) {}

  void Run(CandidateJobs jobs, Take take) override {
    std::vector<absl::StatusOr<Network>> rewritten;
    std::vector<CandidateJob> left;
    rewritten.reserve(jobs.size());
    for (const CandidateJob& job : jobs) {
      auto& network = rewritten.emplace_back(Rewrite(*job.network));
      if (network.ok()) left.push_back({&*network, job.sets});
    }
    std::vector<CandidateAnswer> answers = RunJobs(inner(), left);
    size_t at = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      take(rewritten[i].ok() ? std::move(answers[at++])
                             : AllFail(jobs[i], rewritten[i].status()));
    }
  }

 private:
  // A pass that fails must not look like a candidate that refuses.
  absl::StatusOr<Network> Rewrite(Network network) const {
    const auto findings = RunPasses(passes_, {}, network);
    if (findings.ok()) return network;
    return absl::AbortedError(std::string(MessageOf(findings.status())));
  }

  const std::vector<Pass> passes_;
};

// The network has a single operation, which can read nothing but inputs of the
// network and constants.
CandidateOutputs TensorsRead(const Network& network, const Operation& operation,
                             const std::vector<NDArray>& inputs) {
  std::vector<NDArray> tensors;
  for (const ValueId id : operation.inputs) {
    NDArray& tensor = tensors.emplace_back();
    if (id == kNoValue) continue;
    const auto all = network.inputs();
    const auto place = std::ranges::find(all, id);
    tensor = place != all.end()
                 ? inputs[static_cast<size_t>(place - all.begin())]
                 : network.value(id).data;
    if (tensor.defined()) continue;
    return Unimplemented("an input is made by another operation");
  }
  return tensors;
}

// A backward primitive of oneDNN belongs to one operation with one output, to
// which the cotangents belong. Anything else is left to the gradient as a
// network.
CandidateOutputs RunBackward(const BackwardCase& backward,
                             const std::vector<NDArray>& inputs) {
  const OneDnnThreads one(1);
  const Network& network = backward.forward;
  if (network.order().size() != 1 || network.outputs().size() != 1 ||
      backward.outputs.size() != 1) {
    return Unimplemented("is not an operation with one output");
  }
  const Operation& operation = network.operation(network.order()[0]);
  if (operation.outputs[0] != network.outputs()[0]) {
    return Unimplemented("the output is not the first");
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors,
                            TensorsRead(network, operation, inputs));
  std::vector<size_t> wanted;
  for (const size_t input : backward.inputs) {
    const ValueId id = network.inputs()[input];
    const auto& read = operation.inputs;
    const auto slot = std::ranges::find(read, id);
    if (std::ranges::count(read, id) != 1) {
      return Unimplemented("an input is not read once");
    }
    wanted.push_back(static_cast<size_t>(slot - read.begin()));
  }
  return RunOneDnnBackward(
      {operation.attrs, tensors, inputs[network.inputs().size()], wanted});
}

}  // namespace

// The outputs are copied, since the next set writes to the same memory.
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

CandidateAnswer AllFail(const CandidateJob& job, const absl::Status& status) {
  return {std::vector<CandidateOutputs>(job.sets.size(), status)};
}

// For callers that need all answers before they look at one.
std::vector<CandidateAnswer> RunJobs(Candidate& candidate, CandidateJobs jobs) {
  std::vector<CandidateAnswer> answers;
  candidate.Run(jobs, [&](CandidateAnswer answer) {
    answers.push_back(std::move(answer));
  });
  return answers;
}

CandidateOutputs RunOnce(Candidate& candidate, const Network& network,
                         const std::vector<NDArray>& inputs,
                         const BackwardCase* backward) {
  const CandidateJob job{&network, {&inputs, 1}, backward};
  return std::move(RunJobs(candidate, {&job, 1})[0].sets[0]);
}

// The inputs are kept a second time, side by side as jobs want them; that costs
// little, since tensors are handles.
bool PreparedCase::Add(ValueSet set) {
  CandidateOutputs outputs = reference->Run(set.inputs);
  if (!outputs.ok()) return false;
  expected.push_back(std::move(outputs));
  inputs.push_back(set.inputs);
  sets.push_back(std::move(set));
  return true;
}

absl::StatusOr<LeastTask> MakeLeastTask() {
  constexpr int kPlainOpset = 13;
  LeastTask task{Network("relu"), {}};
  Network& network = task.network;
  NODEWISE_RETURN_IF_ERROR(network.SetOpset("", kPlainOpset));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId x,
                            network.AddInput("x", TensorType(kFloat32, {1})));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId y,
                            network.Add(AllOperators(), ops::Relu{}, {x}, "y"));
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs({y}));
  NODEWISE_ASSIGN_OR_RETURN(task.input, TensorOfDoubles(kFloat32, {1}, {1}));
  return task;
}

// A set that fails does not keep those behind it from running.
CandidateAnswer RunSets(const CandidateJob& job, GraphExecutor* executor) {
  CandidateAnswer answer;
  for (const std::vector<NDArray>& set : job.sets) {
    answer.sets.push_back(RunExecutor(executor, set));
  }
  return answer;
}

bool HasEqualBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Without a function for gradients these are computed as networks.
std::unique_ptr<Candidate> CallableCandidate(std::string name,
                                             NetworkFunction function,
                                             BackwardFunction backward) {
  auto made = std::make_unique<Callable>(std::move(name), std::move(function));
  if (backward == nullptr) return made;
  return BackwardCandidate(std::move(made), std::move(backward));
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

std::unique_ptr<Candidate> EmittedCandidate(
    const OpSet& ops, std::shared_ptr<const CCompiler> compiler,
    std::string optimisation, LowerOptions lowering) {
  return std::make_unique<EmittedNetworks>(
      ops, std::move(compiler), std::move(optimisation), std::move(lowering));
}

std::unique_ptr<Candidate> RewrittenCandidate(std::unique_ptr<Candidate> inner,
                                              std::vector<Pass> passes) {
  return std::make_unique<RewrittenNetworks>(std::move(inner),
                                             std::move(passes));
}

BackwardFunction OneDnnBackward() { return &RunBackward; }

}  // namespace nodewise
