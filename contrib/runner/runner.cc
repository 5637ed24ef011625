#include "nodewise/runner/runner.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckCapabilities(const Runner& runner,
                               const RunOptions& options) {
  const std::pair<bool, Capability> asked[] = {
      {options.sink != nullptr, Capability::kTensors},
      {options.with_node_inputs, Capability::kNodeInputs},
      {options.with_bounds, Capability::kBounds},
      {!options.patches.empty(), Capability::kPatches},
      {options.stop.has_value(), Capability::kSteps},
  };
  for (const auto& [is_asked, capability] : asked) {
    if (!is_asked || runner.Can(capability)) continue;
    return absl::UnimplementedError(
        fmt::format("runner {}: does not have {}, expected one that does",
                    runner.name(), NameOf(capability)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view NameOf(Capability capability) {
  switch (capability) {
    case Capability::kTensors:
      return "the tensors of every node";
    case Capability::kNodeInputs:
      return "what nodes read";
    case Capability::kNodeTimes:
      return "times of nodes";
    case Capability::kBounds:
      return "error bounds";
    case Capability::kPatches:
      return "patches";
    case Capability::kSteps:
      return "stops between nodes";
    case Capability::kDeterministic:
      return "the same bits in every run";
  }
  return "";
}

class Runner::LaterRun : public PendingRun {
 public:
  LaterRun(Runner& runner, std::vector<NDArray> tensors, RunOptions options)
      : runner_(runner),
        tensors_(std::move(tensors)),
        options_(std::move(options)) {}

  absl::StatusOr<RunResult> Finish() override {
    return runner_.RunChecked(std::move(tensors_), options_);
  }

 private:
  Runner& runner_;
  std::vector<NDArray> tensors_;
  const RunOptions options_;
};

absl::StatusOr<std::vector<NDArray>> Runner::Check(
    absl::Span<const NamedTensor> inputs, const RunOptions& options) const {
  NODEWISE_RETURN_IF_ERROR(CheckCapabilities(*this, options));
  if (options.repeats == 0) {
    return absl::InvalidArgumentError(
        fmt::format("runner {}: found 0 repeats, expected 1 or more", name()));
  }
  if (options.repeats > 1 && options.stop.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "runner {}: found {} repeats of a run that stops early, expected one",
        name(), options.repeats));
  }
  return MatchInputs(this->inputs(), inputs);
}

absl::StatusOr<RunResult> Runner::Run(absl::Span<const NamedTensor> inputs,
                                      const RunOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> tensors,
                            Check(inputs, options));
  return RunChecked(std::move(tensors), options);
}

absl::StatusOr<std::unique_ptr<PendingRun>> Runner::Start(
    absl::Span<const NamedTensor> inputs, const RunOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> tensors,
                            Check(inputs, options));
  return StartChecked(std::move(tensors), options);
}

absl::StatusOr<std::unique_ptr<PendingRun>> Runner::StartChecked(
    std::vector<NDArray> tensors, const RunOptions& options) {
  return std::make_unique<LaterRun>(*this, std::move(tensors), options);
}

}  // namespace nodewise
