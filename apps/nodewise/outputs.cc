#include "apps/nodewise/outputs.h"

#include <filesystem>
#include <system_error>

#include "apps/nodewise/tensor_summary.h"
#include "fmt/format.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFirstValues = 8;

std::string TextOf(const NamedTensor& output, const TensorSummary& summary) {
  std::string text =
      fmt::format("output  {}  {}\n", Printable(output.name),
                  TypeToString(output.tensor.shape(), output.tensor.dtype()));
  if (summary.has_numbers) {
    text += fmt::format("  min {}  max {}  mean {}", ShortNumber(summary.min),
                        ShortNumber(summary.max), ShortNumber(summary.mean));
    text += fmt::format("  NaN {}  Inf {}\n", summary.nans, summary.infinities);
  }
  text += "  values";
  for (const std::string& value : summary.first) {
    text += " " + ShortNumber(value);
  }
  const auto elements = NumElements(output.tensor.shape()).value_or(0) *
                        output.tensor.dtype().lanes;
  const bool has_more = static_cast<size_t>(elements) > summary.first.size();
  return text + (has_more ? " ...\n" : elements == 0 ? " none\n" : "\n");
}

}  // namespace

void ShowOutputs(const std::vector<NamedTensor>& outputs, Outcome* outcome) {
  const DefaultFloatEnvironment floats;
  outcome->json.BeginArray("outputs");
  for (const NamedTensor& output : outputs) {
    const TensorSummary summary = SummariseTensor(*output.tensor, kFirstValues);
    outcome->text += TextOf(output, summary);
    outcome->json.BeginObject();
    outcome->json.Add("name", output.name);
    outcome->json.Add("dtype", ToString(output.tensor.dtype()));
    outcome->json.Add("shape", output.tensor.shape());
    outcome->json.Add("bytes", uint64_t{output.tensor.bytes()});
    AddSummary(summary, &outcome->json);
    outcome->json.AddScalars("first", summary.first);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
}

absl::Status CheckOutputPath(const std::string& path, size_t num_outputs) {
  if (path.empty()) return absl::OkStatus();
  const std::string extension = fs::path(path).extension();
  const bool holds_one = extension == ".npy" || extension == ".pb";
  if (extension != ".npz" && extension != ".params" && !holds_one) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: extension is \"{}\", expected .npz, .params, .npy or .pb", path,
        extension));
  }
  if (holds_one && num_outputs > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} outputs do not go into a {} file, expected .npz or .params",
        path, num_outputs, extension));
  }
  return CheckFilePath(path);
}

absl::Status CheckFilePath(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format(
        "{}: there is no folder {} to write to", path, folder.string()));
  }
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is a folder, expected a file to write", path));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
