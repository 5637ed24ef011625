#include "nodewise/module/library_floats.h"

#include <mutex>

namespace nodewise {
namespace {

// A process that loads and releases libraries for ever keeps no more.
constexpr size_t kMostLibraries = 1000;

struct Table {
  std::mutex mutex;
  std::vector<LibraryFloats> libraries;  // mutex
};

Table& LibraryTable() {
  static auto* const table = new Table;
  return *table;
}

}  // namespace

void NoteLibraryFloats(const std::string& path, const FloatChange& change) {
  Table& table = LibraryTable();
  const std::lock_guard lock(table.mutex);
  if (table.libraries.size() == kMostLibraries) return;
  table.libraries.push_back({path, change});
}

std::vector<LibraryFloats> LibrariesThatChangedFloats() {
  Table& table = LibraryTable();
  const std::lock_guard lock(table.mutex);
  return table.libraries;
}

}  // namespace nodewise
