#include "contrib/tensors/test_set.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "contrib/tensors/sources.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInput = "input";
constexpr std::string_view kOutput = "output";

// Returns the number N of a file KIND_N.pb. A name such as input_01.pb is not
// one of a test set, since two files could claim one number then.
std::optional<uint32_t> NumberOf(const std::string& file,
                                 std::string_view kind) {
  uint32_t number = 0;
  const fs::path path(file);
  const std::string stem = path.stem();
  const std::string prefix = std::string(kind) + "_";
  if (path.extension() != ".pb" || !stem.starts_with(prefix) ||
      !absl::SimpleAtoi(stem.substr(prefix.size()), &number) ||
      prefix + std::to_string(number) != stem) {
    return std::nullopt;
  }
  return number;
}

// Calls f(path) with the entries of a folder; with none if it cannot be read.
template <typename F>
void ForEachIn(const std::string& folder, F f) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    f(at->path());
  }
}

std::map<uint32_t, std::string> FilesOf(const std::string& folder,
                                        std::string_view kind) {
  std::map<uint32_t, std::string> files;
  ForEachIn(folder, [&](const fs::path& path) {
    const auto number = NumberOf(path.filename(), kind);
    if (number) files[*number] = path;
  });
  return files;
}

// A file of a test set holds one tensor.
struct SetFile {
  std::string path;
  std::string name;  // Empty: the one in the file.
  bool is_input = false;
};

// Appends the files of one kind in their order. None may be missing: all after
// it would get another's name.
absl::Status AddFiles(const std::string& folder, std::string_view kind,
                      const std::vector<std::string>& names,
                      std::vector<SetFile>* files) {
  const auto found = FilesOf(folder, kind);
  uint32_t expected = 0;
  for (const auto& [number, path] : found) {
    if (number != expected) {
      return DataLoss(
          "{}: has {}_{}.pb but no {}_{}.pb, expected all numbers from 0 on",
          folder, kind, number, kind, expected);
    }
    if (!names.empty() && number >= names.size()) {
      return InvalidArgument(
          "{}: has {} files {}_N.pb, expected at most {} (one for each {} of "
          "the model)",
          folder, found.size(), kind, names.size(), kind);
    }
    files->push_back(
        {path, names.empty() ? "" : names[number], kind == kInput});
    ++expected;
  }
  return absl::OkStatus();
}

// Names that are given for the model's inputs and outputs win over those in the
// files, which may be empty.
class TestSet final : public TensorSource {
 public:
  TestSet(std::string folder, std::vector<SetFile> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}

  const std::string& name() const override { return folder_; }
  absl::Status Visit(TensorSink& sink) override {
    for (const SetFile& file : files_) {
      NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, Read(file));
      const TensorKey key{.node = entry.name, .source = folder_};
      NODEWISE_RETURN_IF_ERROR(
          sink.Consume({.key = key,
                        .tensor = entry.tensor.tensor(),
                        .lasting = entry.tensor,
                        .is_network_input = file.is_input}));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    std::vector<std::string> names;
    for (size_t i = files_.size(); i-- > 0;) {
      const SetFile& file = files_[i];
      // A file whose name is given need not be read to be passed over.
      if (file.name.empty() || IsNameOf(file.name, key)) {
        NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, Read(file));
        if (IsNameOf(entry.name, key)) return entry.tensor;
        names.push_back(entry.name);
      } else {
        names.push_back(file.name);
      }
    }
    return TensorNotFound(folder_, key, {names.rbegin(), names.rend()});
  }

 private:
  static absl::StatusOr<NamedTensor> Read(const SetFile& file) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(file.path));
    if (tensors.size() != 1) {
      return DataLoss("{}: has {} tensors, expected 1", file.path,
                      tensors.size());
    }
    return NamedTensor{file.name.empty() ? tensors[0].name : file.name,
                       tensors[0].tensor};
  }

  std::string folder_;
  std::vector<SetFile> files_;
};

}  // namespace

bool IsTestSet(const std::string& folder) {
  return !FilesOf(folder, kInput).empty() || !FilesOf(folder, kOutput).empty();
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTestSet(
    const std::string& folder, const TestSetNames& names) {
  std::vector<SetFile> files;
  NODEWISE_RETURN_IF_ERROR(AddFiles(folder, kInput, names.inputs, &files));
  NODEWISE_RETURN_IF_ERROR(AddFiles(folder, kOutput, names.outputs, &files));
  return std::make_unique<TestSet>(folder, std::move(files));
}

std::vector<std::string> TestSetsIn(const std::string& folder) {
  std::vector<std::string> sets;
  ForEachIn(folder, [&](const fs::path& path) {
    if (path.filename().string().starts_with("test_data_set_") &&
        IsTestSet(path)) {
      sets.push_back(path);
    }
  });
  std::ranges::sort(sets);
  return sets;
}

}  // namespace nodewise
