#include <utility>

#include "nodewise/runner/runner.h"
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
    return AreCompatible(TensorType::From(*tensor), value(input).type);
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

}  // namespace nodewise
