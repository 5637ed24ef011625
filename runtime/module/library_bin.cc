#include "runtime/module/library_bin.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Real libraries hold a handful; a lying count must not cost memory.
constexpr size_t kMostModules = 1024;
constexpr size_t kMostImports = kMostModules * kMostModules;

struct Rows {
  size_t offset = 0;
  std::vector<uint64_t> ends;      // Row i is [ends[i], ends[i + 1]).
  std::vector<uint64_t> children;  // Indices of modules.
};

absl::StatusOr<std::vector<uint64_t>> ReadNumbers(ByteReader* reader,
                                                  const char* what,
                                                  size_t most) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count(what, sizeof(uint64_t)));
  if (count > most) {
    return reader->ErrorAt(start, fmt::format("{}: found {}, expected at "
                                              "most {}",
                                              what, count, most));
  }
  std::vector<uint64_t> numbers;
  numbers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t number,
                              reader->Read<uint64_t>(what));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<LibraryBinModule> ReadModule(ByteReader* reader) {
  LibraryBinModule module;
  NODEWISE_ASSIGN_OR_RETURN(module.kind, reader->String("module kind"));
  if (module.kind == kOwnCodeKind) return module;
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view data,
                            reader->String("module"));
  module.data = {reinterpret_cast<const uint8_t*>(data.data()), data.size()};
  module.offset = sizeof(uint64_t) + reader->offset() - data.size();
  return module;
}

absl::Status PlaceImports(const ByteReader& reader, const Rows& rows,
                          LibraryBin* bin) {
  const size_t modules = bin->modules.size();
  if (rows.ends.size() != modules + 1) {
    return reader.ErrorAt(
        rows.offset,
        fmt::format("import tree has {} rows, expected {} (one per module "
                    "and one more)",
                    rows.ends.size(), modules + 1));
  }
  std::vector<std::vector<uint32_t>> imports(modules);
  for (size_t i = 0; i < modules; ++i) {
    if (rows.ends[i] > rows.ends[i + 1] ||
        rows.ends[i + 1] > rows.children.size()) {
      return reader.ErrorAt(
          rows.offset,
          fmt::format("import tree row {} is [{}, {}), expected a part of "
                      "the {} children",
                      i, rows.ends[i], rows.ends[i + 1], rows.children.size()));
    }
    for (uint64_t c = rows.ends[i]; c < rows.ends[i + 1]; ++c) {
      if (rows.children[c] >= modules) {
        return reader.ErrorAt(
            rows.offset,
            fmt::format("module {} imports module {}, expected one of the "
                        "{} modules",
                        i, rows.children[c], modules));
      }
      imports[i].push_back(static_cast<uint32_t>(rows.children[c]));
    }
  }
  if (!IsAcyclic(imports)) {
    return reader.ErrorAt(rows.offset, "modules import each other in a circle");
  }
  for (size_t i = 0; i < modules; ++i) {
    bin->modules[i].imports = std::move(imports[i]);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsAcyclic(const std::vector<std::vector<uint32_t>>& imports) {
  // Modules without parents are removed until none is left.
  std::vector<size_t> parents(imports.size(), 0);
  for (const auto& row : imports) {
    for (const uint32_t child : row) ++parents[child];
  }
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < imports.size(); ++i) {
    if (parents[i] == 0) free.push_back(i);
  }
  size_t taken = 0;
  while (!free.empty()) {
    const uint32_t module = free.back();
    free.pop_back();
    ++taken;
    for (const uint32_t child : imports[module]) {
      if (--parents[child] == 0) free.push_back(child);
    }
  }
  return taken == imports.size();
}

absl::StatusOr<LibraryBin> ParseLibraryBin(absl::Span<const uint8_t> bytes,
                                           std::string where) {
  ByteReader outer(bytes, where);
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t size,
                            outer.Read<uint64_t>("library data size"));
  NODEWISE_ASSIGN_OR_RETURN(const auto stream,
                            outer.Bytes("library data", size));
  ByteReader reader(stream, std::move(where), sizeof(uint64_t));
  Rows rows;
  NODEWISE_ASSIGN_OR_RETURN(
      rows.ends, ReadNumbers(&reader, "import tree rows", kMostModules + 1));
  NODEWISE_ASSIGN_OR_RETURN(
      rows.children,
      ReadNumbers(&reader, "import tree children", kMostImports));
  LibraryBin bin;
  while (reader.left() > 0) {
    // The rows were limited, so this ends before too many modules are kept.
    if (bin.modules.size() >= rows.ends.size()) break;
    NODEWISE_ASSIGN_OR_RETURN(LibraryBinModule module, ReadModule(&reader));
    bin.modules.push_back(std::move(module));
  }
  NODEWISE_RETURN_IF_ERROR(PlaceImports(reader, rows, &bin));
  return bin;
}

}  // namespace nodewise
