#include "nodewise/runner/runner.h"

#include <sstream>
#include <utility>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Inputs of graphs come with a number and may share a name; then a key of name
// and number tells them apart. Parameters are among them, though a run can do
// without: a user may replace one.
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
    // A name that finds another input, or several, cannot be the key of this
    // one.
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

// Names of a network's inputs are unique, and its constants are not among them.
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
    std::vector<std::string> names;
    for (size_t i = 0; i < size(); ++i) {
      if (value(i).name == name) return i;
      names.push_back(value(i).name);
    }
    if (names.empty()) {
      return NotFound("input {}: the model has no inputs", name);
    }
    return NotFound(
        "input {}: the model has none of that name, expected one of {}{}", name,
        ListOf(names), DidYouMean(name, names));
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

// The order matters for the message: a tensor that is given twice need not be
// looked at any further.
absl::Status CheckGiven(const InputList& list, size_t input,
                        const NDArray& tensor, const NDArray& before) {
  const std::string key = list.Key(input);
  if (!tensor.defined()) {
    return InvalidArgument("input {}: is an undefined tensor", key);
  }
  if (before.defined()) {
    return InvalidArgument("input {}: is given twice, expected once", key);
  }
  // Executors and the reference trust the type from here on.
  if (!list.Fits(input, tensor)) {
    return InvalidArgument("input {}: is {}, expected {}", key,
                           TypeToString(tensor.shape(), tensor.dtype()),
                           list.TypeText(input));
  }
  return list.CheckSettable(input);
}

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

// Statuses of Abseil carry payloads under the address of a type; ours is told
// apart by the project's name.
constexpr char kPayload[] = "nodewise/node-failure";

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
    return InvalidArgument("input {}: was not given, expected {}", list.Key(i),
                           list.TypeText(i));
  }
  return tensors;
}

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

std::vector<NamedTensor> NameGiven(const InputList& list,
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
  const TensorType type = TensorType::Of(*patch.tensor);
  if (AreCompatible(type, value.type)) return absl::OkStatus();
  return InvalidArgument("value {}: is {}, expected {}", value.name,
                         ToString(type), ToString(value.type));
}

std::string_view NameOf(NodeFailure::Kind kind) {
  // In the order of the enumeration.
  constexpr std::string_view kNames[] = {"crash", "hang",        "exit",
                                         "error", "stray write", "side effect"};
  return kNames[static_cast<size_t>(kind)];
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
  // StatusOf() alone writes it, so that it has no faults to look for.
  const auto text = static_cast<std::string>(*payload);
  std::istringstream numbers(text);
  int kind = 0;
  size_t node_bytes = 0, victim_bytes = 0;
  numbers >> kind >> node_bytes >> victim_bytes;
  const std::string texts =
      text.substr(static_cast<size_t>(numbers.tellg()) + 1);
  NodeFailure failure;
  failure.kind = static_cast<NodeFailure::Kind>(kind);
  failure.node = texts.substr(0, node_bytes);
  failure.victim = texts.substr(node_bytes, victim_bytes);
  failure.what = texts.substr(node_bytes + victim_bytes);
  return failure;
}

}  // namespace nodewise
