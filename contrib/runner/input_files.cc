#include "nodewise/runner/input_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/channels_last.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

// Chooses the tensor as ReadOneTensor() does, of a file that has been read.
absl::StatusOr<NDArray> OneOf(const std::vector<NamedTensor>& tensors,
                              const std::string& path,
                              const std::vector<std::string>& names) {
  // Writers of single tensors seldom know how the network calls them, so the
  // only one in a file is taken under any name.
  if (tensors.size() == 1) return tensors[0].tensor;
  for (const std::string& name : names) {
    if (const NDArray* found = FindTensor(tensors, name)) return *found;
  }
  std::vector<std::string> there;
  for (const NamedTensor& entry : tensors) there.push_back(entry.name);
  return NotFound(
      "{}: has {} tensors and none is named {}, expected it or a single one "
      "(it holds {})",
      path, tensors.size(), names[0], ListOf(there, 8));
}

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kExtensions = {".npz", ".params",
                                                         ".npy", ".pb"};
// How ONNX calls the files of its test sets: input_0.pb and so on.
constexpr std::string_view kTestInput = "input_";

bool IsTensorFile(const fs::path& path) {
  return std::ranges::find(kExtensions, path.extension().string()) !=
         kExtensions.end();
}

// Files of these formats have one tensor, whose name says nothing about the
// input's.
bool HasOneTensor(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".pb";
}

size_t EndOfNumber(const std::string& text, size_t begin) {
  return std::min(text.find_first_not_of("0123456789", begin), text.size());
}

// Compares numbers in names by their value. The longer of two numbers without
// leading zeros is the larger one. Datasets number their files, mostly without
// leading zeros, and a user expects sample 10 behind sample 9. All else is
// compared by bytes. Names that differ in leading zeros alone are told apart by
// their bytes at the end, so that the order is the same on every machine.
bool ComesBefore(const std::string& a, const std::string& b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const size_t end_i = EndOfNumber(a, i);
    const size_t end_j = EndOfNumber(b, j);
    if (end_i > i && end_j > j) {
      while (i + 1 < end_i && a[i] == '0') ++i;
      while (j + 1 < end_j && b[j] == '0') ++j;
      if (end_i - i != end_j - j) return end_i - i < end_j - j;
    }
    if (a[i] != b[j]) return a[i] < b[j];
    ++i;
    ++j;
  }
  const bool a_ends = i == a.size();
  const bool b_ends = j == b.size();
  return a_ends && b_ends ? a < b : a_ends;
}

struct Listed {
  std::vector<std::string> folders, tensor_files, others;
};

// Only names and kinds are looked at, since a folder may have thousands of
// large files.
absl::StatusOr<Listed> List(const std::string& folder) {
  Listed listed;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path& path = at->path();
    // A link that leads nowhere counts as a file, whose reading will say what
    // is wrong.
    std::error_code unknown;
    auto& to = fs::is_directory(path, unknown) ? listed.folders
               : IsTensorFile(path)            ? listed.tensor_files
                                               : listed.others;
    to.push_back(path);
  }
  if (error) {
    return NotFound("{}: cannot be listed: {}, expected a folder", folder,
                    error.message());
  }
  for (auto* list : {&listed.folders, &listed.tensor_files, &listed.others}) {
    std::ranges::sort(*list, &ComesBefore);
  }
  return listed;
}

// Returns the number N of a file input_N.pb.
std::optional<size_t> NumberOf(const std::string& path) {
  const fs::path file(path);
  const std::string stem = file.stem();
  size_t number = 0;
  const bool is_input =
      file.extension() == ".pb" && stem.starts_with(kTestInput) &&
      absl::SimpleAtoi(stem.substr(kTestInput.size()), &number);
  return is_input ? std::optional(number) : std::nullopt;
}

std::vector<std::string> NeededInputs(const InputList& inputs) {
  std::vector<std::string> needed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs.IsNeeded(i)) needed.push_back(inputs.Key(i));
  }
  return needed;
}

// Files of a test set carry the name of their input in most models. Some
// exporters leave it out, and then the number in the file's name counts the
// inputs that the model does not have itself.
absl::StatusOr<InputFile> TestInput(const std::string& path, size_t number,
                                    const InputList& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
  if (tensors.size() == 1 && inputs.Find(tensors[0].name).ok()) {
    return InputFile{tensors[0].name, path};
  }
  const std::vector<std::string> needed = NeededInputs(inputs);
  if (number < needed.size()) return InputFile{needed[number], path};
  return InvalidArgument(
      "{}: is input {} of a test set, expected at most {}, as the network has",
      path, number, CountOf(needed.size(), "input"));
}

// Returns the names that an entry may have in a file: its node's, the one that
// `run --until` writes, and the one in a dump.
std::vector<std::string> NamesOf(const GraphIndex& index, EntryId entry) {
  const NodeId node = index.NodeOf(entry);
  const uint32_t output = index.OutputOf(entry);
  // Users copy names from listings, from what a stopped run has written and
  // from dumps; all three are accepted.
  std::vector<std::string> names = {
      index.KeyOf(entry),
      DumpKeyOf(index.graph().node(node).name, node, output)};
  if (output == 0) names.insert(names.begin(), index.KeyOf(node));
  return names;
}

}  // namespace
VmInputType InputTypeOf(const std::string& name, const NDArray& tensor) {
  const absl::Span<const int64_t> shape = tensor.shape();
  return {name, {shape.begin(), shape.end()}, tensor.dtype()};
}

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
  // A tensor that is held once is in memory of its own. Others are views of a
  // mapped file, which may be changed, or cut so that reading ends the process.
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
        types.push_back(InputTypeOf(entry.name, entry.tensor));
      }
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              OneOf(tensors, file.path, {file.name}));
    types.push_back(InputTypeOf(file.name, tensor));
  }
  return types;
}

std::vector<NamedTensor> NameInputs(const InputList& list,
                                    absl::Span<const RunInput> inputs) {
  std::vector<NamedTensor> named;
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

void InputCollector::Assign(const InputFile& file) {
  file.name.empty() ? AssignAll(file.path) : AssignNamed(file);
}

void InputCollector::Assign(const NamedTensor& tensor) {
  if (!files_.IsFrozen(tensor.name)) Set(tensor.name, tensor.tensor, "memory");
}

void InputCollector::AssignNamed(const InputFile& file) {
  // Both say what the tensor is, and nothing says which of them is meant.
  if (files_.IsFrozen(file.name)) {
    return AddError(InvalidArgument(
        "input {}: is given and frozen, expected one of both", file.name));
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

void InputCollector::AssignAll(const std::string& path) {
  const auto tensors = files_.Read(path);
  if (!tensors.ok()) return AddError(tensors.status());
  // Such a file is most likely not the one that was meant, and each missing
  // input would be reported without a word of it.
  if (tensors->empty()) {
    return AddError(
        InvalidArgument("{}: holds no tensor, expected inputs", path));
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
    return AddError(InvalidArgument(
        "{}: input {}: is given twice, expected once ({} has it too)", path,
        name, from));
  }
  // The input counts as given from here on even if the tensor does not fit:
  // Complete() would say that it is missing, too.
  from = path;
  if (!list_.Fits(*input, tensor)) {
    return AddError(InvalidArgument(
        "{}: input {}: is {}, expected {}", path, name,
        TypeToString(tensor.shape(), tensor.dtype()), list_.TypeText(*input)));
  }
  const absl::Status status = Keep(*input, tensor);
  if (!status.ok()) AddError(At(path, status));
}

// Tensors of a .params file are views of the file, which may change.
absl::Status InputCollector::Keep(size_t input, const NDArray& tensor) {
  NODEWISE_RETURN_IF_ERROR(list_.CheckSettable(input));
  NODEWISE_ASSIGN_OR_RETURN(inputs_[input].tensor, tensor.is_held_once()
                                                       ? tensor
                                                       : tensor.CopyToHost());
  return absl::OkStatus();
}

void InputCollector::Complete(std::optional<uint64_t> seed,
                              const Hints& hints) {
  if (diagnostics_.HasErrors()) return;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].from.empty() || !list_.IsNeeded(i)) continue;
    if (seed.has_value()) {
      Draw(i, *seed, hints);
      continue;
    }
    const std::string name = list_.Key(i);
    Diagnostic missing;
    missing.file = "input " + name;
    missing.found = "was not given";
    missing.expected = list_.TypeText(i);
    if (hints.how_to_give) missing.hint = hints.how_to_give(name);
    diagnostics_.Add(std::move(missing));
  }
}

void InputCollector::Draw(size_t input, uint64_t seed, const Hints& hints) {
  const std::string name = list_.Name(input);
  // Reports say where an input is from, so that the run can be made again.
  inputs_[input].from = fmt::format("random, seed {}", seed);
  const auto draw = [&]() -> absl::StatusOr<NDArray> {
    const TensorType type = list_.Type(input);
    if (!type.is_static()) {
      return InvalidArgument(
          "is {}, expected all sizes, to draw it{}", list_.TypeText(input),
          hints.how_to_size ? hints.how_to_size(name, type) : "");
    }
    // The stream depends on the name and not on the place, so that the input
    // stays as it is when others come or go.
    RandomSource source(seed, name);
    return RandomTensor(source, *type.sizes(), type.dtype);
  };
  const auto tensor = draw();
  const absl::Status status =
      tensor.ok() ? Keep(input, *tensor) : tensor.status();
  if (!status.ok()) AddError(At("input " + name, status));
}

std::vector<RunInput> InputCollector::Inputs() const {
  std::vector<RunInput> set = inputs_;
  std::erase_if(set, [](const RunInput& input) { return input.from.empty(); });
  return set;
}

absl::StatusOr<SampleFolder> ListSamples(const std::string& folder) {
  NODEWISE_ASSIGN_OR_RETURN(Listed listed, List(folder));
  // Its files would be taken for samples of one input each, and every run would
  // fail.
  for (const std::string& file : listed.tensor_files) {
    if (!NumberOf(file).has_value()) continue;
    return InvalidArgument(
        "{}: is an ONNX test set, which is one sample, expected a folder of "
        "samples (give the folder that it is in)",
        folder);
  }
  SampleFolder found;
  found.samples = std::move(listed.folders);
  found.samples.insert(found.samples.end(), listed.tensor_files.begin(),
                       listed.tensor_files.end());
  std::ranges::sort(found.samples, &ComesBefore);
  for (const std::string& path : listed.others) {
    found.passed_over.push_back(fs::path(path).filename());
  }
  if (!found.samples.empty()) return found;
  return InvalidArgument(
      "{}: has no samples, expected files .npz, .params, .npy or .pb, or "
      "folders of them",
      folder);
}

std::vector<std::string> TensorFilesOf(const std::string& sample) {
  std::error_code error;
  if (!fs::is_directory(sample, error)) return {sample};
  const auto listed = List(sample);
  if (!listed.ok()) return {};
  std::vector<std::string> files;
  for (const std::string& path : listed->tensor_files) {
    if (NumberOf(path).has_value()) files.push_back(path);
  }
  // A test set has files of expected outputs beside those of inputs; those are
  // no inputs.
  return files.empty() ? listed->tensor_files : files;
}

absl::StatusOr<std::vector<InputFile>> FilesOfSample(const std::string& sample,
                                                     const InputList& inputs) {
  std::error_code error;
  if (!fs::is_directory(sample, error)) {
    const std::vector<std::string> needed = NeededInputs(inputs);
    const bool is_only = HasOneTensor(sample) && needed.size() == 1;
    return std::vector<InputFile>{{is_only ? needed[0] : "", sample}};
  }
  std::vector<InputFile> files;
  for (const std::string& path : TensorFilesOf(sample)) {
    InputFile& file = files.emplace_back(InputFile{"", path});
    if (const auto number = NumberOf(path)) {
      NODEWISE_ASSIGN_OR_RETURN(file, TestInput(path, *number, inputs));
    }
  }
  if (!files.empty()) return files;
  return InvalidArgument(
      "{}: is a folder without inputs, expected input_0.pb, or files .npz, "
      ".params, .npy or .pb",
      sample);
}

absl::StatusOr<TensorPatch> ReadPatch(const GraphIndex& index,
                                      const std::string& entry,
                                      const std::string& file,
                                      const std::string& where) {
  const auto found = index.FindEntry(entry);
  if (!found.ok()) return At(where, found.status());
  auto tensor = ReadOneTensor(file, NamesOf(index, *found));
  if (!tensor.ok()) return At(where, tensor.status());
  // Files have tensors in the order of the model, while a graph may keep them
  // with the channels last.
  auto stored = InStoredOrder(index, *found, *tensor);
  if (!stored.ok()) return At(where, At(file, stored.status()));
  return TensorPatch{entry, *std::move(stored), file, where};
}

}  // namespace nodewise
