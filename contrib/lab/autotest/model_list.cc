#include "nodewise/autotest/model_list.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ModelsIn(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(path, error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".onnx") files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::shared_ptr<const Network>> Load(const std::string& file) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            ImportOnnx(file, AllOperators(), {}, &diagnostics));
  NetworkData data = network.data();
  data.name = fs::path(file).filename().string();
  NODEWISE_ASSIGN_OR_RETURN(network, Network::FromData(std::move(data)));
  return std::make_shared<const Network>(std::move(network));
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<const Network>>> LoadModelsOf(
    const std::string& path) {
  std::vector<std::shared_ptr<const Network>> models;
  absl::Status first = absl::NotFoundError(
      fmt::format("{}: has no .onnx file", Printable(path)));
  bool has_failed = false;
  for (const std::string& file : ModelsIn(path)) {
    auto model = Load(file);
    if (model.ok()) {
      models.push_back(*std::move(model));
    } else if (!has_failed) {
      first = model.status();
      has_failed = true;
    }
  }
  if (models.empty()) return first;
  return models;
}

}  // namespace nodewise
