#include "nodewise/session/model_file.h"

#include <filesystem>
#include <utility>

#include "nodewise/ir/network_text.h"
#include "nodewise/support/file.h"

namespace nodewise {

bool IsModel(const std::string& path) {
  return std::filesystem::path(path).extension() == ".onnx";
}

bool IsNetworkText(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return false;
  return LooksLikeNetworkText(file->text());
}

bool IsModelOrText(const std::string& path) {
  return IsModel(path) || IsNetworkText(path);
}

}  // namespace nodewise
