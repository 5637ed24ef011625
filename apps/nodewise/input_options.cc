#include "apps/nodewise/input_options.h"

#include <utility>

#include "apps/nodewise/model_options.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

// Like ReadOneTensor, for a file that has been read.
absl::StatusOr<NDArray> OneOf(const std::vector<NamedTensor>& tensors,
                              const std::string& path,
                              const std::vector<std::string>& names) {
  if (tensors.size() == 1) return tensors[0].tensor;
  for (const std::string& name : names) {
    for (const NamedTensor& entry : tensors) {
      if (entry.name == name) return entry.tensor;
    }
  }
  std::vector<std::string> there;
  there.reserve(tensors.size());
  for (const NamedTensor& entry : tensors) there.push_back(entry.name);
  return absl::NotFoundError(fmt::format(
      "{}: has {} tensors and none is named {}, expected it or a single one "
      "(it holds {})",
      path, tensors.size(), names[0], ListOf(there, 8)));
}

// Returns for each input whether a node or an output of the graph reads it.
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

class ExecutorInputs : public InputTaker {
 public:
  explicit ExecutorInputs(GraphExecutor* executor)
      : executor_(*executor), is_read_(ReadInputs(executor->graph())) {}

  size_t size() const override { return executor_.NumInputs(); }
  std::string Name(size_t input) const override {
    return executor_.InputInfo(input).name;
  }
  std::string Key(size_t input) const override {
    std::string name = Name(input);
    const auto found = executor_.InputIndex(name);
    if (found.ok() && *found == input) return name;
    return fmt::format("{}#{}", name, executor_.graph().arg_nodes[input]);
  }
  std::string Type(size_t input) const override {
    const TensorInfo info = executor_.InputInfo(input);
    return TypeToString(info.shape, info.dtype);
  }
  bool IsNeeded(size_t input) const override {
    return is_read_[input] && !executor_.InputInfo(input).is_param;
  }
  absl::StatusOr<size_t> Find(const std::string& name) const override {
    return executor_.InputIndex(name);
  }
  bool Fits(size_t input, const NDArray& tensor) const override {
    const TensorInfo info = executor_.InputInfo(input);
    return tensor.shape() == info.shape &&
           IsSameType(tensor.dtype(), info.dtype);
  }
  absl::Status Set(size_t input, const NDArray& tensor) override {
    return executor_.SetInput(input, *tensor);
  }
  absl::StatusOr<NDArray> Draw(size_t input,
                               RandomSource& source) const override {
    const TensorInfo info = executor_.InputInfo(input);
    return RandomTensor(source, info.shape, info.dtype);
  }

 private:
  GraphExecutor& executor_;
  std::vector<bool> is_read_;
};

class InputSetter {
 public:
  InputSetter(const InputFiles& files, InputTaker* taker,
              DiagnosticList* diagnostics)
      : files_(files),
        taker_(*taker),
        diagnostics_(*diagnostics),
        sources_(taker->size()),
        tensors_(taker->size()) {}

  // Sets the input of one `--input NAME=FILE`.
  void SetFromArgument(const std::string& argument) {
    const auto parts = SplitAtEquals("--input", argument, "NAME=FILE");
    if (!parts.ok()) return AddError(parts.status());
    const auto& [name, path] = *parts;
    // A wrong name is cheaper to find than a wrong file.
    if (const auto known = taker_.Find(name); !known.ok()) {
      return AddError(known.status());
    }
    const auto tensor = ReadOne(path, name);
    if (!tensor.ok()) return AddError(tensor.status());
    Set(name, *tensor, path);
  }

  // Sets inputs from the file of `--inputs`.
  void SetFromFile(const std::string& path) {
    const auto tensors = files_.Read(path);
    if (!tensors.ok()) return AddError(tensors.status());
    if (tensors->empty()) {
      return AddError(absl::InvalidArgumentError(
          fmt::format("{}: holds no tensor, expected inputs", path)));
    }
    for (const NamedTensor& entry : *tensors) {
      Set(entry.name, entry.tensor, path);
    }
  }

  // Sets all inputs that are not given and are no parameters.
  void Complete(std::optional<uint64_t> seed) {
    for (size_t i = 0; i < taker_.size(); ++i) {
      if (!sources_[i].empty() || !taker_.IsNeeded(i)) continue;
      if (seed.has_value()) {
        SetRandom(i, *seed);
      } else {
        AddMissing(i);
      }
    }
  }

  std::vector<InputSource> Sources() const {
    std::vector<InputSource> result;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!sources_[i].empty()) result.push_back({i, sources_[i], tensors_[i]});
    }
    return result;
  }

 private:
  // Holds no other tensor of the file meanwhile, and this one only once.
  absl::StatusOr<NDArray> ReadOne(const std::string& path,
                                  const std::string& name) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, files_.Read(path));
    return OneOf(tensors, path, {name});
  }

  void AddError(const absl::Status& status) {
    diagnostics_.Add(DiagnosticOf(status));
  }

  void Set(const std::string& name, const NDArray& tensor,
           const std::string& path) {
    const auto input = taker_.Find(name);
    if (!input.ok()) return AddError(At(path, input.status()));
    if (!sources_[*input].empty()) {
      return AddError(absl::InvalidArgumentError(
          fmt::format("{}: input {}: is given twice, expected once ({} "
                      "has it too)",
                      path, name, sources_[*input])));
    }
    sources_[*input] = path;
    if (!taker_.Fits(*input, tensor)) {
      return AddError(absl::InvalidArgumentError(fmt::format(
          "{}: input {}: is {}, expected {}", path, name,
          TypeToString(tensor.shape(), tensor.dtype()), taker_.Type(*input))));
    }
    const absl::Status status = Keep(*input, tensor);
    if (!status.ok()) AddError(At(path, status));
  }

  // Tensors of a .params file are views of the file, which may change.
  absl::Status Keep(size_t input, const NDArray& tensor) {
    if (tensor.is_held_once()) {
      tensors_[input] = tensor;
    } else {
      NODEWISE_ASSIGN_OR_RETURN(tensors_[input], tensor.CopyToHost());
    }
    return taker_.Set(input, tensors_[input]);
  }

  void SetRandom(size_t input, uint64_t seed) {
    const std::string name = taker_.Name(input);
    RandomSource source(seed, name);
    sources_[input] = fmt::format("random, seed {}", seed);
    const auto tensor = taker_.Draw(input, source);
    const absl::Status status =
        tensor.ok() ? Keep(input, *tensor) : tensor.status();
    if (!status.ok()) AddError(At("input " + name, status));
  }

  void AddMissing(size_t input) {
    const std::string name = taker_.Key(input);
    Diagnostic diagnostic;
    diagnostic.file = "input " + name;
    diagnostic.found = "was not given";
    diagnostic.expected = taker_.Type(input);
    diagnostic.hint = fmt::format(
        "--input {}=FILE, --inputs FILE or --random-inputs SEED", name);
    diagnostics_.Add(std::move(diagnostic));
  }

  const InputFiles& files_;
  InputTaker& taker_;
  DiagnosticList& diagnostics_;
  std::vector<std::string> sources_;  // By input; empty if it is not set.
  std::vector<NDArray> tensors_;      // By input.
};

}  // namespace

void AddInputOptions(OptionList* options, InputOptions* inputs) {
  options->AddTexts("--input", "NAME=FILE",
                    "an input from a .npy, .npz, .params or .pb file; once for "
                    "each input",
                    &inputs->inputs);
  options->AddText("--inputs", "FILE",
                   "inputs by their names from one .npz or .params file",
                   &inputs->inputs_file);
  options->AddNumber("--random-inputs", "SEED",
                     "draws the inputs that are not given; one seed gives the "
                     "same values everywhere",
                     {&inputs->seed});
}

absl::StatusOr<std::vector<NamedTensor>> InputFiles::Read(
    const std::string& path) const {
  const auto kept = kept_.find(path);
  if (kept != kept_.end()) return kept->second;
  return ReadTensorFile(path);
}

absl::StatusOr<std::vector<NamedTensor>> InputFiles::ReadToKeep(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, Read(path));
  for (NamedTensor& entry : tensors) {
    if (entry.tensor.is_held_once()) continue;
    NODEWISE_ASSIGN_OR_RETURN(entry.tensor, entry.tensor.CopyToHost());
  }
  kept_[path] = tensors;
  return tensors;
}

absl::StatusOr<std::vector<VmInputType>> InputTypes(InputFiles* files) {
  std::vector<VmInputType> types;
  const auto add = [&types](const std::string& name, const NDArray& tensor) {
    const absl::Span<const int64_t> shape = tensor.shape();
    types.push_back({name, {shape.begin(), shape.end()}, tensor.dtype()});
  };
  for (const std::string& text : files->options().inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const NameAndValue argument,
                              SplitAtEquals("--input", text, "NAME=FILE"));
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors,
                              files->ReadToKeep(argument.value));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              OneOf(tensors, argument.value, {argument.name}));
    add(argument.name, tensor);
  }
  const std::string& path = files->options().inputs_file;
  if (path.empty()) return types;
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, files->ReadToKeep(path));
  for (const NamedTensor& entry : tensors) add(entry.name, entry.tensor);
  return types;
}

std::vector<InputSource> SetInputs(const InputFiles& files,
                                   GraphExecutor* executor,
                                   DiagnosticList* diagnostics) {
  ExecutorInputs inputs(executor);
  return SetInputs(files, &inputs, diagnostics);
}

std::vector<InputSource> SetInputs(const InputFiles& files, InputTaker* taker,
                                   DiagnosticList* diagnostics) {
  const InputOptions& options = files.options();
  InputSetter setter(files, taker, diagnostics);
  for (const std::string& argument : options.inputs) {
    setter.SetFromArgument(argument);
  }
  if (!options.inputs_file.empty()) setter.SetFromFile(options.inputs_file);
  // After an error the list of what is missing would only mislead.
  if (!diagnostics->HasErrors()) setter.Complete(options.seed);
  return setter.Sources();
}

absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
  return OneOf(tensors, path, names);
}

}  // namespace nodewise
