#include <memory>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/run_executor.h"
#include "nodewise/ir/pass.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class RewrittenNetworks : public Candidate {
 public:
  RewrittenNetworks(std::unique_ptr<Candidate> inner, std::vector<Pass> passes)
      : inner_(std::move(inner)), passes_(std::move(passes)) {}

  const std::string& name() const override { return inner_->name(); }
  size_t jobs_at_once() const override { return inner_->jobs_at_once(); }

  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    std::vector<absl::StatusOr<Network>> rewritten;
    std::vector<CandidateJob> left;
    rewritten.reserve(jobs.size());
    for (const CandidateJob& job : jobs) {
      auto& network = rewritten.emplace_back(Rewrite(*job.network));
      if (network.ok()) left.push_back({&*network, job.sets});
    }
    std::vector<CandidateAnswer> answers = RunJobs(*inner_, left);
    size_t at = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      take(rewritten[i].ok() ? std::move(answers[at++])
                             : AllFail(jobs[i], rewritten[i].status()));
    }
  }

 private:
  absl::StatusOr<Network> Rewrite(Network network) const {
    const auto findings = RunPasses(passes_, {}, network);
    if (findings.ok()) return network;
    return absl::AbortedError(std::string(MessageOf(findings.status())));
  }

  const std::unique_ptr<Candidate> inner_;
  const std::vector<Pass> passes_;
};

}  // namespace

std::unique_ptr<Candidate> RewrittenCandidate(std::unique_ptr<Candidate> inner,
                                              std::vector<Pass> passes) {
  return std::make_unique<RewrittenNetworks>(std::move(inner),
                                             std::move(passes));
}

}  // namespace nodewise
