#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/run_executor.h"
#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/module/module.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

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

  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    // Flags such as -ffast-math are about this library and not about the next
    // candidate.
    const KeepCandidateFloats kept;
    std::vector<absl::StatusOr<Lowered>> lowered;
    for (const CandidateJob& job : jobs) {
      lowered.push_back(LowerForC(*job.network));
    }
    const auto library = Compile(&lowered);
    const bool is_ours =
        !library.ok() && !absl::IsUnavailable(library.status());
    if (is_ours && jobs.size() > 1 && HasC(lowered)) {
      // One of them does not compile, which is not the fault of the others.
      Run(jobs.first(jobs.size() / 2), take);
      return Run(jobs.subspan(jobs.size() / 2), take);
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      const absl::Status status =
          lowered[i].ok() ? library.status() : lowered[i].status();
      take(status.ok() ? RunOne(jobs[i], *lowered[i], *library)
                       : AllFail(jobs[i], status));
    }
  }

 private:
  static bool HasC(const std::vector<absl::StatusOr<Lowered>>& lowered) {
    return std::any_of(lowered.begin(), lowered.end(),
                       [](const auto& one) { return one.ok(); });
  }

  // Fails if there is no C for some of it.
  absl::StatusOr<Lowered> LowerForC(const Network& network) const {
    NODEWISE_ASSIGN_OR_RETURN(Lowered lowered,
                              Lower(network, "case", lowering_));
    NODEWISE_RETURN_IF_ERROR(EmitC(lowered.graph, ops_).status());
    return lowered;
  }

  // Makes one library of all, and names its functions in the graphs.
  absl::StatusOr<Ref<Library>> Compile(
      std::vector<absl::StatusOr<Lowered>>* lowered) const {
    std::vector<Graph*> graphs;
    for (auto& one : *lowered) {
      if (one.ok()) graphs.push_back(&one->graph);
    }
    if (graphs.empty()) return absl::UnimplementedError("no C");
    NODEWISE_ASSIGN_OR_RETURN(const std::string source,
                              EmitTogether(absl::MakeSpan(graphs), ops_));
    return Load(source);
  }

  absl::StatusOr<Ref<Library>> Load(const std::string& source) const {
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

}  // namespace

std::unique_ptr<Candidate> EmittedCandidate(
    const OpSet& ops, std::shared_ptr<const CCompiler> compiler,
    std::string optimisation, LowerOptions lowering) {
  return std::make_unique<EmittedNetworks>(
      ops, std::move(compiler), std::move(optimisation), std::move(lowering));
}

}  // namespace nodewise
