#include "apps/nodewise/input_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/nodewise/error_text.h"
#include "nodewise/contrib/random.h"
#include "nodewise/contrib/tensor_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kShownNames = 8;

// The names in a file of several tensors, for a hint.
std::string NamesOf(const std::vector<NamedTensor>& tensors) {
  std::string names;
  for (size_t i = 0; i < std::min(tensors.size(), kShownNames); ++i) {
    names += (i == 0 ? "" : ", ") + tensors[i].name;
  }
  return tensors.size() > kShownNames ? names + ", ..." : names;
}

// By number of input: whether a node or an output of the graph reads it.
std::vector<bool> ReadInputs(const Graph& graph) {
  std::vector<bool> is_read(graph.nodes.size());
  for (const GraphNode& node : graph.nodes) {
    for (const EntryRef& ref : node.inputs) is_read[ref.node] = true;
  }
  for (const EntryRef& ref : graph.heads) is_read[ref.node] = true;
  std::vector<bool> result;
  for (const uint32_t node : graph.arg_nodes) result.push_back(is_read[node]);
  return result;
}

// One `--input NAME=FILE`.
struct InputArgument {
  std::string name;
  std::string path;
};

absl::StatusOr<InputArgument> ParseArgument(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals != 0 && equals != std::string::npos &&
      equals + 1 != argument.size()) {
    return InputArgument{argument.substr(0, equals),
                         argument.substr(equals + 1)};
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("--input: found \"%s\", expected NAME=FILE", argument));
}

class InputSetter {
 public:
  InputSetter(GraphExecutor* executor, FaultList* faults)
      : executor_(*executor),
        faults_(*faults),
        sources_(executor->NumInputs()) {}

  void SetFromArgument(const std::string& text) {
    const auto argument = ParseArgument(text);
    if (!argument.ok()) return AddError(argument.status());
    // A name is the cheaper thing to be wrong.
    if (const auto known = executor_.InputIndex(argument->name); !known.ok()) {
      return AddError(known.status());
    }
    const auto tensor = ReadOneTensor(argument->path, {argument->name});
    if (!tensor.ok()) return AddError(tensor.status());
    Set(argument->name, *tensor, argument->path);
  }

  // The file of `--inputs`.
  void SetFromFile(const std::string& path) {
    const auto tensors = ReadTensorFile(path);
    if (!tensors.ok()) return AddError(tensors.status());
    if (tensors->empty()) {
      return AddError(absl::InvalidArgumentError(
          absl::StrFormat("%s: holds no tensor, expected inputs", path)));
    }
    for (const NamedTensor& entry : *tensors) {
      Set(entry.name, entry.tensor, path);
    }
  }

  // Everything that is not given yet and is no parameter.
  void Complete(std::optional<uint64_t> seed) {
    const std::vector<bool> is_read = ReadInputs(executor_.graph());
    for (size_t i = 0; i < executor_.NumInputs(); ++i) {
      const TensorInfo info = executor_.InputInfo(i);
      if (info.is_param || !sources_[i].empty() || !is_read[i]) continue;
      if (seed.has_value()) {
        SetRandom(i, info, *seed);
      } else {
        AddMissing(info);
      }
    }
  }

  std::vector<InputSource> Sources() const {
    std::vector<InputSource> result;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].empty()) result.push_back({i, sources_[i]});
    }
    return result;
  }

 private:
  void AddError(const absl::Status& status) { faults_.Add(FaultOf(status)); }

  void Set(const std::string& name, const NDArray& tensor,
           const std::string& path) {
    const auto input = executor_.InputIndex(name);
    if (!input.ok()) return AddError(At(path, input.status()));
    const TensorInfo info = executor_.InputInfo(*input);
    if (!sources_[*input].empty()) {
      return AddError(absl::InvalidArgumentError(
          absl::StrFormat("%s: input %s: is given twice, expected once (%s "
                          "has it too)",
                          path, name, sources_[*input])));
    }
    sources_[*input] = path;
    if (tensor.shape() != info.shape ||
        !IsSameType(tensor.dtype(), info.dtype)) {
      return AddError(absl::InvalidArgumentError(
          absl::StrFormat("%s: input %s: is %s, expected %s", path, name,
                          TypeToString(tensor.shape(), tensor.dtype()),
                          TypeToString(info.shape, info.dtype))));
    }
    const absl::Status status = executor_.SetInput(*input, *tensor);
    if (!status.ok()) AddError(At(path, status));
  }

  void SetRandom(size_t input, const TensorInfo& info, uint64_t seed) {
    RandomSource source(seed, info.name);
    sources_[input] = absl::StrFormat("random, seed %d", seed);
    const auto tensor = RandomTensor(source, info.shape, info.dtype);
    const absl::Status status =
        tensor.ok() ? executor_.SetInput(input, **tensor) : tensor.status();
    if (!status.ok()) AddError(At("input " + info.name, status));
  }

  void AddMissing(const TensorInfo& info) {
    Fault fault;
    fault.file = "input " + info.name;
    fault.found = "was not given";
    fault.expected = TypeToString(info.shape, info.dtype);
    fault.hint = absl::StrFormat(
        "--input %s=FILE, --inputs FILE or --random-inputs SEED", info.name);
    faults_.Add(std::move(fault));
  }

  GraphExecutor& executor_;
  FaultList& faults_;
  std::vector<std::string> sources_;  // By input; empty if it is not set.
};

}  // namespace

void AddInputOptions(OptionList* options, InputOptions* inputs) {
  options->AddTexts("--input", "NAME=FILE",
                    "an input from a .npy, .npz or .params file; once for each "
                    "input",
                    &inputs->inputs);
  options->AddText("--inputs", "FILE",
                   "inputs by their names from one .npz or .params file",
                   &inputs->inputs_file);
  options->AddNumber("--random-inputs", "SEED",
                     "draws the inputs that are not given; one seed gives the "
                     "same values everywhere",
                     {&inputs->seed});
}

absl::StatusOr<std::vector<VmInputType>> InputTypes(
    const InputOptions& options) {
  std::vector<VmInputType> types;
  const auto add = [&types](const std::string& name, const NDArray& tensor) {
    const absl::Span<const int64_t> shape = tensor.shape();
    types.push_back({name, {shape.begin(), shape.end()}, tensor.dtype()});
  };
  for (const std::string& text : options.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const InputArgument argument,
                              ParseArgument(text));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              ReadOneTensor(argument.path, {argument.name}));
    add(argument.name, tensor);
  }
  if (options.inputs_file.empty()) return types;
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors,
                            ReadTensorFile(options.inputs_file));
  for (const NamedTensor& entry : tensors) add(entry.name, entry.tensor);
  return types;
}

std::vector<InputSource> SetInputs(const InputOptions& options,
                                   GraphExecutor* executor, FaultList* faults) {
  InputSetter setter(executor, faults);
  for (const std::string& argument : options.inputs) {
    setter.SetFromArgument(argument);
  }
  if (!options.inputs_file.empty()) setter.SetFromFile(options.inputs_file);
  // After an error the list of what is missing would only mislead.
  if (!faults->HasErrors()) setter.Complete(options.seed);
  return setter.Sources();
}

absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
  if (tensors.size() == 1) return tensors[0].tensor;
  for (const std::string& name : names) {
    for (const NamedTensor& entry : tensors) {
      if (entry.name == name) return entry.tensor;
    }
  }
  return absl::NotFoundError(absl::StrFormat(
      "%s: has %d tensors and none is named %s, expected it or a single one "
      "(it holds %s)",
      path, tensors.size(), names[0], NamesOf(tensors)));
}

}  // namespace nodewise
