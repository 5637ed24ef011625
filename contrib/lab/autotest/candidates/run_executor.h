#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/graph/graph_executor.h"

namespace nodewise {

// Runs with these inputs and returns copies of the outputs.
CandidateOutputs RunExecutor(GraphExecutor* executor,
                             absl::Span<const NDArray> inputs);

// Runs all sets of a job, whose network the executor runs.
CandidateAnswer RunSets(const CandidateJob& job, GraphExecutor* executor);

// Returns the answer of a job whose sets all come to the same.
CandidateAnswer AllFail(const CandidateJob& job, const absl::Status& status);

// Returns what a candidate makes of one set of inputs.
CandidateOutputs RunOnce(Candidate& candidate, const Network& network,
                         const std::vector<NDArray>& inputs,
                         const BackwardCase* backward = nullptr);

// A configuration with its sets on their way through a candidate. `inputs` are
// those of the sets, laid out as jobs want them.
struct PreparedCase {
  explicit PreparedCase(OperatorCase drawn) : made(std::move(drawn)) {}

  // Adds a set, unless the reference refuses it: a candidate may do anything
  // with what its operator does not take.
  bool Add(ValueSet set);

  OperatorCase made;
  std::unique_ptr<CaseReference> reference =
      std::make_unique<CaseReference>(made);
  std::vector<ValueSet> sets;
  std::vector<CandidateOutputs> expected;
  std::vector<std::vector<NDArray>> inputs;
};

// Runs what was prepared, and hands out each case with its answer.
template <typename Case, typename Take>
void RunPrepared(Candidate& candidate, std::vector<Case>& batch, Take take) {
  std::vector<CandidateJob> jobs;
  for (const Case& each : batch) {
    jobs.push_back(
        {each.made.network.get(), each.inputs, each.made.backward.get()});
  }
  size_t at = 0;
  candidate.Run(jobs, [&](CandidateAnswer answer) {
    take(batch[at++], std::move(answer));
  });
}

// The least that a program can be asked for: a Relu of one number, in an opset
// that all runtimes of today have.
struct LeastTask {
  Network network;
  NDArray input;
};
absl::StatusOr<LeastTask> MakeLeastTask();

// A candidate that does something before or behind another one.
class OuterCandidate : public Candidate {
 public:
  explicit OuterCandidate(std::unique_ptr<Candidate> inner)
      : inner_(std::move(inner)) {}
  const std::string& name() const override { return inner_->name(); }
  size_t jobs_at_once() const override { return inner_->jobs_at_once(); }

 protected:
  Candidate& inner() { return *inner_; }
  const Candidate& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Candidate> inner_;
};

// Returns whether both hold the same bytes; their types may differ.
bool HasEqualBytes(const NDArray& a, const NDArray& b);

}  // namespace nodewise
