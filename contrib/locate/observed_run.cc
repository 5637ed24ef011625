#include "contrib/locate/observed_run.h"

#include <utility>

#include "nodewise/runner/node_failure.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class BothSinks : public TensorSink {
 public:
  BothSinks(TensorSink& first, TensorSink* second)
      : first_(first), second_(second) {}

  absl::Status Take(const TensorItem& item) override {
    if (second_ != nullptr) NODEWISE_RETURN_IF_ERROR(second_->Take(item));
    return first_.Take(item);
  }

 private:
  TensorSink& first_;
  TensorSink* const second_;
};

}  // namespace

ObservedRun::ObservedRun(Runner& runner, const std::vector<NamedTensor>& inputs,
                         HashSink* hashes)
    : runner_(runner), inputs_(inputs), hashes_(hashes) {}

ObservedRun::ObservedRun(Runner& runner, const std::vector<NamedTensor>& inputs,
                         std::vector<TensorPatch> patches)
    : runner_(runner),
      inputs_(inputs),
      hashes_(nullptr),
      patches_(std::move(patches)) {}

absl::Status ObservedRun::Visit(TensorSink& sink) {
  BothSinks both(sink, hashes_);
  RunOptions options;
  options.patches = patches_;
  options.sink = &both;
  options.with_node_inputs = true;
  options.node_limit_ms = node_limit_ms_;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner_.Run(inputs_, options));
  outputs_ = std::move(result.outputs);
  floats_ = std::move(result.floats);
  runtime_ = std::move(result.runtime);
  return absl::OkStatus();
}

absl::Status CutRun::Visit(TensorSink& sink) {
  absl::Status status = run_.Visit(sink);
  return FailureOf(status).has_value() ? absl::OkStatus() : status;
}

absl::Status RunsSink::Take(const TensorItem& item) {
  if (!first_.has_value()) first_ = item.key;
  if (item.key == *first_) runs_.emplace_back(index_);
  return runs_.back().Take(item);
}

std::vector<RunHashes> RunsSink::Finish() {
  std::vector<RunHashes> hashes;
  for (HashSink& run : runs_) hashes.push_back(run.Finish({}));
  return hashes;
}

}  // namespace nodewise
