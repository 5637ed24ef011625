#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What all runners of compiled graphs have in common: an executor, and setting
// its inputs. By itself it is the plain runner, which cannot be looked into.
class GraphRunner : public Runner {
 public:
  // `executor` is one of the target, with its parameters set.
  GraphRunner(std::string_view kind, std::shared_ptr<const GraphTarget> target,
              std::unique_ptr<GraphExecutor> executor);

  const std::string& name() const override { return name_; }
  const InputList& inputs() const override { return target_->inputs(); }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  bool Can(Capability) const override { return false; }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override;

  const GraphTarget& target() const { return *target_; }
  // Sets the inputs, and the parameters again where a run has changed one.
  absl::Status SetInputs(const std::vector<NDArray>& tensors);
  // Says that this run has given a parameter other contents.
  void ParamsChanged() { are_params_changed_ = true; }
  // Runs all nodes as often as the options say.
  absl::Status RunAll(const RunOptions& options, RunResult* result);

 private:
  const std::string name_;
  const std::shared_ptr<const GraphTarget> target_;
  const std::unique_ptr<GraphExecutor> executor_;
  std::vector<std::string> outputs_;
  bool are_params_changed_ = false;
};

}  // namespace nodewise
