#include "nodewise/runner/runner.h"

#include <utility>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

class GraphInputList : public InputList {
 public:
  GraphInputList(const Graph& graph, std::vector<GraphInput> inputs)
      : graph_(graph), inputs_(std::move(inputs)) {}

  size_t size() const override { return inputs_.size(); }
  std::string Name(size_t input) const override {
    return std::string(inputs_[input].name);
  }
  std::string Key(size_t input) const override {
    std::string name = Name(input);
    const auto found = FindInput(inputs_, name);
    if (found.ok() && *found == input) return name;
    return KeyOfInput(inputs_, input);
  }
  TensorType Type(size_t input) const override {
    const GraphEntry& type = entry(input);
    return {type.dtype, {type.shape.begin(), type.shape.end()}};
  }
  std::string TypeText(size_t input) const override {
    return TypeToString(entry(input).shape, entry(input).dtype);
  }
  bool IsNeeded(size_t input) const override {
    return inputs_[input].is_read && !inputs_[input].is_param;
  }
  absl::StatusOr<size_t> Find(const std::string& name) const override {
    return FindInput(inputs_, name);
  }
  // Compilers have given one element type several codes; see IsSameType().
  bool Fits(size_t input, const NDArray& tensor) const override {
    const GraphEntry& type = entry(input);
    return tensor.shape() == absl::MakeConstSpan(type.shape) &&
           IsSameType(tensor.dtype(), type.dtype);
  }
  absl::Status CheckSettable(size_t input) const override {
    return nodewise::CheckSettable(inputs_[input]);
  }

 private:
  const GraphEntry& entry(size_t input) const {
    return graph_.entry(graph_.EntryOf(inputs_[input].node, 0));
  }

  const Graph& graph_;
  const std::vector<GraphInput> inputs_;
};

class NetworkInputList : public InputList {
 public:
  explicit NetworkInputList(const Network& network) : network_(network) {}

  size_t size() const override { return network_.inputs().size(); }
  std::string Name(size_t input) const override { return value(input).name; }
  TensorType Type(size_t input) const override { return value(input).type; }
  std::string TypeText(size_t input) const override {
    return ToString(value(input).type);
  }
  bool IsNeeded(size_t) const override { return true; }
  absl::StatusOr<size_t> Find(const std::string& name) const override {
    for (size_t i = 0; i < size(); ++i) {
      if (value(i).name == name) return i;
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < size(); ++i) names.push_back(value(i).name);
    if (names.empty()) {
      return absl::NotFoundError(
          fmt::format("input {}: the model has no inputs", name));
    }
    return absl::NotFoundError(fmt::format(
        "input {}: the model has none of that name, expected one of {}{}", name,
        ListOf(names), DidYouMean(name, names)));
  }
  bool Fits(size_t input, const NDArray& tensor) const override {
    return AreCompatible(TensorType::Of(*tensor), value(input).type);
  }

 private:
  const NetworkValue& value(size_t input) const {
    return network_.value(network_.inputs()[input]);
  }

  const Network& network_;
};

absl::Status CheckGiven(const InputList& list, size_t input,
                        const NDArray& tensor, const NDArray& before) {
  const std::string key = list.Key(input);
  if (!tensor.defined()) {
    return absl::InvalidArgumentError(
        fmt::format("input {}: is an undefined tensor", key));
  }
  if (before.defined()) {
    return absl::InvalidArgumentError(
        fmt::format("input {}: is given twice, expected once", key));
  }
  if (!list.Fits(input, tensor)) {
    return absl::InvalidArgumentError(fmt::format(
        "input {}: is {}, expected {}", key,
        TypeToString(tensor.shape(), tensor.dtype()), list.TypeText(input)));
  }
  return list.CheckSettable(input);
}

}  // namespace

std::unique_ptr<InputList> ListInputs(const Graph& graph,
                                      std::vector<GraphInput> inputs) {
  return std::make_unique<GraphInputList>(graph, std::move(inputs));
}

std::unique_ptr<InputList> ListInputs(const Network& network) {
  return std::make_unique<NetworkInputList>(network);
}

absl::StatusOr<std::vector<NDArray>> MatchInputs(
    const InputList& list, absl::Span<const NamedTensor> given) {
  std::vector<NDArray> tensors(list.size());
  for (const NamedTensor& input : given) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t place, list.Find(input.name));
    NODEWISE_RETURN_IF_ERROR(
        CheckGiven(list, place, input.tensor, tensors[place]));
    tensors[place] = input.tensor;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined() || !list.IsNeeded(i)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "input {}: was not given, expected {}", list.Key(i), list.TypeText(i)));
  }
  return tensors;
}

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

namespace {

constexpr char kPayload[] = "nodewise/node-failure";

}  // namespace

std::string_view NameOf(NodeFailure::Kind kind) {
  switch (kind) {
    case NodeFailure::Kind::kCrash:
      return "crash";
    case NodeFailure::Kind::kHang:
      return "hang";
    case NodeFailure::Kind::kExit:
      return "exit";
    case NodeFailure::Kind::kError:
      return "error";
    case NodeFailure::Kind::kStrayWrite:
      return "stray write";
    case NodeFailure::Kind::kSideEffect:
      return "side effect";
  }
  return "";
}

absl::Status StatusOf(const NodeFailure& failure, std::string_view title,
                      absl::StatusCode code) {
  absl::Status status(code, fmt::format("{}: {}", title, failure.what));
  // The kind, the numbers of bytes of both keys, and all texts: names may hold
  // any character.
  status.SetPayload(
      kPayload,
      absl::Cord(fmt::format("{} {} {} {}{}{}", static_cast<int>(failure.kind),
                             failure.node.size(), failure.victim.size(),
                             failure.node, failure.victim, failure.what)));
  return status;
}

std::optional<NodeFailure> FailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const auto text = static_cast<std::string>(*payload);
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  const size_t third = text.find(' ', second + 1);
  const auto kind = std::stoi(text);
  const size_t node_bytes = std::stoul(text.substr(first + 1));
  const size_t victim_bytes = std::stoul(text.substr(second + 1));
  NodeFailure failure;
  failure.kind = static_cast<NodeFailure::Kind>(kind);
  failure.node = text.substr(third + 1, node_bytes);
  failure.victim = text.substr(third + 1 + node_bytes, victim_bytes);
  failure.what = text.substr(third + 1 + node_bytes + victim_bytes);
  return failure;
}

}  // namespace nodewise
