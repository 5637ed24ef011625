#include "nodewise/runner/runner.h"

#include <utility>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status CheckCapabilities(const Runner& runner,
                               const RunOptions& options) {
  // Options that a runner cannot do are refused here, once for all classes, so
  // that none of them can forget to.
  const std::pair<bool, Capability> asked[] = {
      {options.sink != nullptr, Capability::kTensors},
      {options.with_node_inputs, Capability::kNodeInputs},
      {options.with_bounds, Capability::kBounds},
      {!options.patches.empty(), Capability::kPatches},
      {options.stop.has_value(), Capability::kSteps},
  };
  for (const auto& [is_asked, capability] : asked) {
    if (!is_asked || runner.Can(capability)) continue;
    return Unimplemented("runner {}: does not have {}, expected one that does",
                         runner.name(), NameOf(capability));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view NameOf(Capability capability) {
  // In the order of the enumeration.
  constexpr std::string_view kNames[] = {"the tensors of every node",
                                         "what nodes read",
                                         "times of nodes",
                                         "error bounds",
                                         "patches",
                                         "stops between nodes",
                                         "the same bits in every run"};
  return kNames[static_cast<size_t>(capability)];
}

// For runners whose nodes run in this process: there is nothing that could go
// on beside the caller.
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
    return InvalidArgument("runner {}: found 0 repeats, expected 1 or more",
                           name());
  }
  // Each repeat would end at the same place, and the times would not be those
  // of the network.
  if (options.repeats > 1 && options.stop.has_value()) {
    return InvalidArgument(
        "runner {}: found {} repeats of a run that stops early, expected one",
        name(), options.repeats);
  }
  // Last, because it holds on to the tensors: a run that is refused takes
  // nothing.
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

const NDArray* FindTensor(absl::Span<const NamedTensor> tensors,
                          std::string_view name) {
  for (const NamedTensor& each : tensors) {
    if (each.name == name) return &each.tensor;
  }
  return nullptr;
}

std::vector<NamedTensor> NameGivenTensors(const InputList& list,
                                          std::vector<NDArray> tensors) {
  std::vector<NamedTensor> given;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    given.push_back({list.Key(i), std::move(tensors[i])});
  }
  return given;
}

std::vector<std::string> UniqueNames(const std::vector<std::string>& names) {
  std::vector<NamedTensor> named;
  for (const std::string& name : names) named.push_back({name, NDArray()});
  // The rule for names stands in one place, which works on tensors.
  MakeNamesUnique(&named);
  std::vector<std::string> unique;
  for (NamedTensor& each : named) unique.push_back(std::move(each.name));
  return unique;
}

TensorItem ItemOf(const TensorKey& key, const NDArray& tensor) {
  TensorItem item{key};
  item.lasting = tensor;
  if (tensor.defined()) item.tensor = tensor.tensor();
  return item;
}

absl::Status CheckPatch(const TensorPatch& patch, const NetworkValue& value) {
  if (value.kind == NetworkValue::Kind::kConstant) {
    return InvalidArgument(
        "value {}: is a constant, expected an input or what an operation makes",
        value.name);
  }
  const TensorType type = TensorType::From(*patch.tensor);
  if (AreCompatible(type, value.type)) return absl::OkStatus();
  return InvalidArgument("value {}: is {}, expected {}", value.name,
                         ToString(type), ToString(value.type));
}

}  // namespace nodewise
