#include "nodewise/tensors/tensor_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "contrib/tensors/sources.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// The file of a dump that has its tensors. Its names are the dump's keys, and
// what else is known about them lies beside it.
constexpr char kDumpTensorsFile[] = "output_tensors.params";

// Returns the folders test_data_set_N of a model's folder.
std::vector<std::string> TestSetsIn(const std::string& folder) {
  std::vector<std::string> sets;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with("test_data_set_") && IsTestSet(at->path())) {
      sets.push_back(at->path());
    }
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenFolder(
    const std::string& path, const TestSetNames& names) {
  if (IsTestSet(path)) return OpenTestSet(path, names);
  auto dump = OpenDumpSource(path);
  if (!absl::IsNotFound(dump.status())) return dump;
  const std::vector<std::string> sets = TestSetsIn(path);
  if (sets.size() == 1) return OpenTestSet(sets[0], names);
  if (sets.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: is a folder without tensors, expected a dump, an ONNX test set "
        "(input_0.pb, output_0.pb) or a file of tensors",
        path));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: has {} test sets, expected one (give one of {})", path,
                  sets.size(), ListOf(sets, 4)));
}

}  // namespace

absl::StatusOr<NDArray> TensorSource::Find(const TensorKey& key) {
  return absl::UnimplementedError(
      fmt::format("{}: tensor {}: cannot be looked for, expected a dump "
                  "or a file (its tensors can only be visited in order)",
                  name(), key.Name()));
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensorSource(
    const std::string& path, const TestSetNames& names) {
  std::error_code error;
  if (fs::is_directory(path, error)) return OpenFolder(path, names);
  const fs::path file(path);
  if (file.filename() == kDumpTensorsFile && fs::exists(file, error)) {
    const fs::path folder = file.parent_path();
    auto dump = OpenDumpSource(folder.empty() ? "." : folder.string());
    if (!absl::IsNotFound(dump.status())) return dump;
  }
  return OpenFileSource(path);
}

}  // namespace nodewise
