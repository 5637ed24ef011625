#include "contrib/locate/observed_run.h"

#include <utility>

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

absl::StatusOr<RunResult> RunInto(TensorSink* sink, Runner& runner,
                                  const std::vector<NamedTensor>& inputs,
                                  std::vector<TensorPatch> patches) {
  RunOptions options;
  options.patches = std::move(patches);
  options.sink = sink;
  options.with_node_inputs = true;
  return runner.Run(inputs, options);
}

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
  NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                            RunInto(&both, runner_, inputs_, patches_));
  outputs_ = std::move(result.outputs);
  return absl::OkStatus();
}

absl::StatusOr<RunHashes> HashesOfRun(Runner& runner, const GraphIndex& index,
                                      const std::vector<NamedTensor>& inputs) {
  HashSink sink(index);
  NODEWISE_ASSIGN_OR_RETURN(const RunResult result,
                            RunInto(&sink, runner, inputs, {}));
  return sink.Finish(result.outputs);
}

}  // namespace nodewise
