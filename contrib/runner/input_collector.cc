#include "nodewise/runner/input_collector.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

// Does what ReadOneTensor does for a file that has been read.
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

VmInputType TypeOf(const std::string& name, const NDArray& tensor) {
  const absl::Span<const int64_t> shape = tensor.shape();
  return {name, {shape.begin(), shape.end()}, tensor.dtype()};
}

}  // namespace

absl::StatusOr<NDArray> ReadOneTensor(const std::string& path,
                                      const std::vector<std::string>& names) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
  return OneOf(tensors, path, names);
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

absl::StatusOr<std::vector<VmInputType>> InputFiles::TypesOf(
    absl::Span<const InputFile> files) {
  std::vector<VmInputType> types;
  for (const InputFile& file : files) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadToKeep(file.path));
    if (file.name.empty()) {
      for (const NamedTensor& entry : tensors) {
        types.push_back(TypeOf(entry.name, entry.tensor));
      }
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              OneOf(tensors, file.path, {file.name}));
    types.push_back(TypeOf(file.name, tensor));
  }
  return types;
}

std::vector<NamedTensor> NameInputs(const InputList& list,
                                    absl::Span<const RunInput> inputs) {
  std::vector<NamedTensor> named;
  named.reserve(inputs.size());
  for (const RunInput& input : inputs) {
    named.push_back({list.Key(input.input), input.tensor});
  }
  return named;
}

InputCollector::InputCollector(const InputList& list, const InputFiles& files,
                               DiagnosticList* diagnostics)
    : list_(list),
      files_(files),
      diagnostics_(*diagnostics),
      inputs_(list.size()) {
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].input = i;
}

void InputCollector::Give(const InputFile& file) {
  file.name.empty() ? GiveAll(file.path) : GiveOne(file);
}

void InputCollector::Give(const NamedTensor& tensor) {
  if (!files_.IsFrozen(tensor.name)) Set(tensor.name, tensor.tensor, "memory");
}

void InputCollector::GiveOne(const InputFile& file) {
  if (files_.IsFrozen(file.name)) {
    return AddError(absl::InvalidArgumentError(fmt::format(
        "input {}: is given and frozen, expected one of both", file.name)));
  }
  // A wrong name is cheaper to find than a wrong file.
  if (const auto known = list_.Find(file.name); !known.ok()) {
    return AddError(known.status());
  }
  // Only the one tensor stays in memory, so that it need not be copied.
  const auto read = [&]() -> absl::StatusOr<NDArray> {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, files_.Read(file.path));
    return OneOf(tensors, file.path, {file.name});
  };
  const auto tensor = read();
  if (!tensor.ok()) return AddError(tensor.status());
  Set(file.name, *tensor, file.path);
}

void InputCollector::GiveAll(const std::string& path) {
  const auto tensors = files_.Read(path);
  if (!tensors.ok()) return AddError(tensors.status());
  if (tensors->empty()) {
    return AddError(absl::InvalidArgumentError(
        fmt::format("{}: holds no tensor, expected inputs", path)));
  }
  for (const NamedTensor& entry : *tensors) {
    if (!files_.IsFrozen(entry.name)) Set(entry.name, entry.tensor, path);
  }
}

void InputCollector::Set(const std::string& name, const NDArray& tensor,
                         const std::string& path) {
  const auto input = list_.Find(name);
  if (!input.ok()) return AddError(At(path, input.status()));
  std::string& from = inputs_[*input].from;
  if (!from.empty()) {
    return AddError(absl::InvalidArgumentError(fmt::format(
        "{}: input {}: is given twice, expected once ({} has it too)", path,
        name, from)));
  }
  from = path;
  if (!list_.Fits(*input, tensor)) {
    return AddError(absl::InvalidArgumentError(fmt::format(
        "{}: input {}: is {}, expected {}", path, name,
        TypeToString(tensor.shape(), tensor.dtype()), list_.TypeText(*input))));
  }
  const absl::Status status = Keep(*input, tensor);
  if (!status.ok()) AddError(At(path, status));
}

// Tensors of a .params file are views of the file, which may change.
absl::Status InputCollector::Keep(size_t input, const NDArray& tensor) {
  NODEWISE_RETURN_IF_ERROR(list_.CheckSettable(input));
  if (tensor.is_held_once()) {
    inputs_[input].tensor = tensor;
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(inputs_[input].tensor, tensor.CopyToHost());
  return absl::OkStatus();
}

void InputCollector::Complete(std::optional<uint64_t> seed,
                              const Hints& hints) {
  if (diagnostics_.HasErrors()) return;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].from.empty() || !list_.IsNeeded(i)) continue;
    if (seed.has_value()) {
      Draw(i, *seed, hints);
    } else {
      AddMissing(i, hints);
    }
  }
}

void InputCollector::Draw(size_t input, uint64_t seed, const Hints& hints) {
  const std::string name = list_.Name(input);
  inputs_[input].from = fmt::format("random, seed {}", seed);
  const auto draw = [&]() -> absl::StatusOr<NDArray> {
    const TensorType type = list_.Type(input);
    if (!type.is_static()) {
      return absl::InvalidArgumentError(fmt::format(
          "is {}, expected all sizes, to draw it{}", list_.TypeText(input),
          hints.how_to_size ? hints.how_to_size(name, type) : ""));
    }
    RandomSource source(seed, name);
    return RandomTensor(source, *type.sizes(), type.dtype);
  };
  const auto tensor = draw();
  const absl::Status status =
      tensor.ok() ? Keep(input, *tensor) : tensor.status();
  if (!status.ok()) AddError(At("input " + name, status));
}

void InputCollector::AddMissing(size_t input, const Hints& hints) {
  const std::string name = list_.Key(input);
  Diagnostic diagnostic;
  diagnostic.file = "input " + name;
  diagnostic.found = "was not given";
  diagnostic.expected = list_.TypeText(input);
  if (hints.how_to_give) diagnostic.hint = hints.how_to_give(name);
  diagnostics_.Add(std::move(diagnostic));
}

std::vector<RunInput> InputCollector::Inputs() const {
  std::vector<RunInput> result;
  for (const RunInput& input : inputs_) {
    if (!input.from.empty()) result.push_back(input);
  }
  return result;
}

}  // namespace nodewise
