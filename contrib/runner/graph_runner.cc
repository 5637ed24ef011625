#include <utility>

#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

namespace nodewise {

GraphRunner::GraphRunner(std::string_view kind,
                         std::shared_ptr<const GraphTarget> target,
                         std::unique_ptr<GraphExecutor> executor)
    : name_(std::string(kind) + " " + target->name()),
      target_(std::move(target)),
      executor_(std::move(executor)) {
  std::vector<std::string> names;
  for (size_t i = 0; i < executor_->NumOutputs(); ++i) {
    names.push_back(executor_->OutputInfo(i).name);
  }
  outputs_ = UniqueNames(names);
}

absl::Status GraphRunner::SetInputs(const std::vector<NDArray>& tensors) {
  // Parameters are large, so they are set again only behind a run that has
  // changed one.
  if (are_params_changed_) {
    NODEWISE_RETURN_IF_ERROR(target_->SetParams(executor_.get()));
    are_params_changed_ = false;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    NODEWISE_RETURN_IF_ERROR(executor_->SetInput(i, *tensors[i]));
    // A parameter may be given as well, for this run only.
    if (!inputs().IsNeeded(i)) ParamsChanged();
  }
  return absl::OkStatus();
}

absl::Status GraphRunner::RunAll(const RunOptions& options, RunResult* result) {
  for (uint64_t i = 0; i < options.repeats; ++i) {
    // A runner that can be looked into says itself which node was running.
    const NotedRun run(Can(Capability::kSteps) ? "" : target_->name());
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_RETURN_IF_ERROR(executor_->Run());
    result->durations_ns.push_back(ClockNanoseconds() - start_ns);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunResult> GraphRunner::RunChecked(std::vector<NDArray> tensors,
                                                  const RunOptions& options) {
  NODEWISE_RETURN_IF_ERROR(SetInputs(tensors));
  RunResult result;
  NODEWISE_RETURN_IF_ERROR(RunAll(options, &result));
  NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor_));
  return result;
}

}  // namespace nodewise
