#include "tests/support/fixtures.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace nodewise {

std::string FixturesFolder() {
  const auto folder = std::filesystem::path(NODEWISE_SOURCE_DIR).parent_path() /
                      "shared" / "fixtures";
  return std::filesystem::is_directory(folder) ? folder.string() : "";
}

std::vector<std::string> FixtureFolders(const std::string& part) {
  std::vector<std::string> folders;
  const std::filesystem::path root =
      std::filesystem::path(FixturesFolder()) / part;
  if (FixturesFolder().empty() || !std::filesystem::is_directory(root)) {
    return folders;
  }
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string FixtureName(const std::string& folder) {
  std::string name =
      folder.substr(folder.rfind('/', folder.rfind('/') - 1) + 1);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace nodewise
