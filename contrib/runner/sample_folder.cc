#include "nodewise/runner/sample_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kExtensions = {".npz", ".params",
                                                         ".npy", ".pb"};
constexpr std::string_view kTestInput = "input_";

bool IsTensorFile(const fs::path& path) {
  return std::find(kExtensions.begin(), kExtensions.end(),
                   path.extension().string()) != kExtensions.end();
}

// Such a file has one tensor, whose name says nothing about the input's.
bool HasOneTensor(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".pb";
}

// Returns where the digits at a place end.
size_t EndOfNumber(const std::string& text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && std::isdigit(uint8_t(text[end])) != 0) ++end;
  return end;
}

// Compares numbers in names by their value. The longer of two numbers without
// leading zeros is the larger one.
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
  std::vector<std::string> folders;
  std::vector<std::string> tensor_files;
  std::vector<std::string> others;
};

absl::StatusOr<Listed> List(const std::string& folder) {
  Listed listed;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code unknown;
    auto* to = &listed.others;
    if (fs::is_directory(path, unknown)) {
      to = &listed.folders;
    } else if (IsTensorFile(path)) {
      to = &listed.tensor_files;
    }
    to->push_back(path);
  }
  if (error) {
    return absl::NotFoundError(
        fmt::format("{}: cannot be listed: {}, expected a folder", folder,
                    error.message()));
  }
  std::sort(listed.folders.begin(), listed.folders.end(), &ComesBefore);
  std::sort(listed.tensor_files.begin(), listed.tensor_files.end(),
            &ComesBefore);
  std::sort(listed.others.begin(), listed.others.end(), &ComesBefore);
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

absl::StatusOr<InputFile> TestInput(const std::string& path, size_t number,
                                    const InputList& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
  if (tensors.size() == 1 && inputs.Find(tensors[0].name).ok()) {
    return InputFile{tensors[0].name, path};
  }
  const std::vector<std::string> needed = NeededInputs(inputs);
  if (number < needed.size()) return InputFile{needed[number], path};
  return absl::InvalidArgumentError(
      fmt::format("{}: is input {} of a test set, expected at most {}, as the "
                  "network has",
                  path, number, CountOf(needed.size(), "input")));
}

}  // namespace

absl::StatusOr<SampleFolder> ListSamples(const std::string& folder) {
  NODEWISE_ASSIGN_OR_RETURN(Listed listed, List(folder));
  for (const std::string& file : listed.tensor_files) {
    if (!NumberOf(file).has_value()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: is an ONNX test set, which is one sample, expected a "
                    "folder of samples (give the folder that it is in)",
                    folder));
  }
  SampleFolder found;
  found.samples = std::move(listed.folders);
  found.samples.insert(found.samples.end(), listed.tensor_files.begin(),
                       listed.tensor_files.end());
  std::sort(found.samples.begin(), found.samples.end(), &ComesBefore);
  for (const std::string& path : listed.others) {
    found.passed_over.push_back(fs::path(path).filename());
  }
  if (!found.samples.empty()) return found;
  return absl::InvalidArgumentError(fmt::format(
      "{}: has no samples, expected files .npz, .params, .npy or .pb, or "
      "folders of them",
      folder));
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
  return files.empty() ? listed->tensor_files : files;
}

absl::StatusOr<std::vector<InputFile>> FilesOfSample(const std::string& sample,
                                                     const InputList& inputs) {
  std::error_code error;
  if (!fs::is_directory(sample, error)) {
    const std::vector<std::string> needed = NeededInputs(inputs);
    if (!HasOneTensor(sample) || needed.size() != 1) {
      return std::vector<InputFile>{{"", sample}};
    }
    return std::vector<InputFile>{{needed[0], sample}};
  }
  std::vector<InputFile> files;
  for (const std::string& path : TensorFilesOf(sample)) {
    const std::optional<size_t> number = NumberOf(path);
    InputFile file{"", path};
    if (number.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(file, TestInput(path, *number, inputs));
    }
    files.push_back(std::move(file));
  }
  if (!files.empty()) return files;
  return absl::InvalidArgumentError(fmt::format(
      "{}: is a folder without inputs, expected input_0.pb, or files .npz, "
      ".params, .npy or .pb",
      sample));
}

}  // namespace nodewise
