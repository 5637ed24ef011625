#include "runtime/module/module_blob.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Real libraries hold a handful; a lying count must not cost memory.
constexpr size_t kMostModules = 1024;
constexpr size_t kMostImports = kMostModules * kMostModules;

// A string takes its length at least, even if it is empty.
constexpr uint64_t kLeastString = sizeof(uint64_t);

// The keys of device modules, which all have one layout.
constexpr std::string_view kDeviceKeys[] = {
    "cuda",   "opencl", "rocm", "hip",     "metal",
    "vulkan", "webgpu", "aocl", "sdaccel", "aocl_sw_emu"};

using Imports = std::vector<std::vector<uint32_t>>;

struct ImportTree {
  size_t offset = 0;
  std::vector<uint64_t> rows;  // Row i is [rows[i], rows[i + 1]) of children.
  std::vector<uint64_t> children;  // Indices of modules.
};

// What messages say before the number of children and of modules.
struct ImportWords {
  std::string_view children;
  std::string_view modules;
};

absl::StatusOr<std::vector<uint64_t>> ReadNumbers(ByteReader* reader,
                                                  const char* what,
                                                  uint64_t most = UINT64_MAX) {
  return reader->List<uint64_t>(
      what, sizeof(uint64_t), [&] { return reader->Read<uint64_t>(what); },
      most);
}

// Returns whether following imports always comes to an end: code that walks
// along them would not end otherwise. Modules that no other one imports are
// taken away, one after the other; those of a circle remain.
// REQUIRES: every import is the index of a row.
bool IsAcyclic(const Imports& imports) {
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

// Returns the imports of each of so many modules. A tree is at most as long as
// the file, and no two rows share children, so neither takes more memory.
absl::StatusOr<Imports> PlaceImports(const ByteReader& reader,
                                     const ImportTree& tree, size_t modules,
                                     const ImportWords& words) {
  const std::vector<uint64_t>& rows = tree.rows;
  const size_t start = tree.offset;
  if (rows.size() != modules + 1) {
    return reader.ErrorAt(start,
                          fmt::format("import tree has {} rows, expected {} "
                                      "(one per module and one more)",
                                      rows.size(), modules + 1));
  }
  Imports imports(modules);
  for (size_t i = 0; i < modules; ++i) {
    if (rows[i] > rows[i + 1] || rows[i + 1] > tree.children.size()) {
      return reader.ErrorAt(
          start, fmt::format("import tree row {} is [{}, {}), {} {} children",
                             i, rows[i], rows[i + 1], words.children,
                             tree.children.size()));
    }
    for (uint64_t c = rows[i]; c < rows[i + 1]; ++c) {
      if (tree.children[c] >= modules) {
        return reader.ErrorAt(
            start, fmt::format("module {} imports module {}, {} {} modules", i,
                               tree.children[c], words.modules, modules));
      }
      imports[i].push_back(static_cast<uint32_t>(tree.children[c]));
    }
  }
  if (IsAcyclic(imports)) return imports;
  return reader.ErrorAt(start, "modules import each other in a circle");
}

absl::StatusOr<std::vector<std::string_view>> ReadStrings(ByteReader* reader,
                                                          const char* what) {
  return reader->List<std::string_view>(what, kLeastString,
                                        [&] { return reader->String(what); });
}

absl::Status WrongCount(const ByteReader& reader, size_t at,
                        std::string_view what, uint64_t count, size_t expected,
                        std::string_view each) {
  return reader.ErrorAt(at, fmt::format("{} is {}, expected {} (one per {})",
                                        what, count, expected, each));
}

// Reads names and as many tensors; the places of the two lists differ by item.
absl::StatusOr<std::vector<std::pair<std::string_view, TensorRecord>>>
ReadTensors(ByteReader* reader, const std::vector<std::string_view>& names) {
  std::vector<std::pair<std::string_view, TensorRecord>> tensors;
  tensors.reserve(names.size());
  for (const std::string_view name : names) {
    auto record = ReadTensorRecord(reader);
    if (!record.ok()) {
      return absl::Status(
          record.status().code(),
          fmt::format("{} (tensor {})", MessageOf(record.status()), name));
    }
    tensors.emplace_back(name, *std::move(record));
  }
  return tensors;
}

// The count of the parameters is written twice, which is a chance to notice
// damage.
absl::StatusOr<GraphFactoryItem> ReadGraphFactory(ByteReader* reader) {
  GraphFactoryItem item;
  NODEWISE_ASSIGN_OR_RETURN(item.graph_json, reader->String("graph JSON"));
  const size_t count_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(
      const uint64_t count,
      reader->Count("parameter count", kLeastString + kLeastRecordBytes));
  NODEWISE_ASSIGN_OR_RETURN(const auto names,
                            ReadStrings(reader, "parameter name"));
  if (count != names.size()) {
    return WrongCount(*reader, count_at, "parameter count", count, names.size(),
                      "name");
  }
  NODEWISE_ASSIGN_OR_RETURN(item.params, ReadTensors(reader, names));
  NODEWISE_ASSIGN_OR_RETURN(item.module_name, reader->String("module name"));
  return item;
}

// Constants first, then the symbols that need them; the lists of their names
// stand apart from the symbols.
absl::StatusOr<ConstantsItem> ReadConstants(ByteReader* reader) {
  ConstantsItem item;
  NODEWISE_ASSIGN_OR_RETURN(const auto names,
                            ReadStrings(reader, "constant name"));
  const size_t count_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count("constant count", kLeastRecordBytes));
  if (count != names.size()) {
    return WrongCount(*reader, count_at, "constant count", count, names.size(),
                      "name");
  }
  NODEWISE_ASSIGN_OR_RETURN(item.constants, ReadTensors(reader, names));
  NODEWISE_ASSIGN_OR_RETURN(const auto symbols, ReadStrings(reader, "symbol"));
  const size_t lists_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t lists,
                            reader->Count("symbol list count", kLeastString));
  if (lists != symbols.size()) {
    return WrongCount(*reader, lists_at, "symbol list count", lists,
                      symbols.size(), "symbol");
  }
  for (const std::string_view symbol : symbols) {
    NODEWISE_ASSIGN_OR_RETURN(auto wanted,
                              ReadStrings(reader, "constant of a symbol"));
    item.symbols.emplace_back(symbol, std::move(wanted));
  }
  return item;
}

absl::StatusOr<DeviceFunction> ReadDeviceFunction(ByteReader* reader) {
  DeviceFunction function;
  // TVM leaves the name inside the entry empty in some releases (0.14); the
  // map's key is what the code is looked up by.
  NODEWISE_ASSIGN_OR_RETURN(function.name,
                            reader->String("device function key"));
  NODEWISE_RETURN_IF_ERROR(reader->String("device function name").status());
  NODEWISE_ASSIGN_OR_RETURN(
      function.arg_types,
      reader->List<DLDataType>("argument types", sizeof(DLDataType), [&] {
        return reader->Read<DLDataType>("argument type");
      }));
  NODEWISE_ASSIGN_OR_RETURN(function.launch_tags,
                            ReadStrings(reader, "launch tag"));
  return function;
}

// Nothing here runs such code, but its functions are listed, and its length
// must be known to read on.
absl::StatusOr<DeviceCodeItem> ReadDeviceCode(ByteReader* reader) {
  DeviceCodeItem item;
  NODEWISE_ASSIGN_OR_RETURN(item.format, reader->String("code format"));
  // Four lengths or counts belong to each function.
  NODEWISE_ASSIGN_OR_RETURN(
      item.functions,
      reader->List<DeviceFunction>("device function count", 4 * kLeastString,
                                   [&] { return ReadDeviceFunction(reader); }));
  NODEWISE_ASSIGN_OR_RETURN(item.code, reader->String("device code"));
  return item;
}

absl::StatusOr<BytecodeItem> ReadBytecode(ByteReader* reader) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view bytes,
                            reader->String("bytecode"));
  // The reader does not count the blob's own length, which precedes it all.
  return BytecodeItem{
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      sizeof(uint64_t) + reader->offset() - bytes.size()};
}

absl::StatusOr<BlobItem> ReadItem(ByteReader* reader, size_t start,
                                  std::string_view key) {
  BlobItem item{key, OwnCodeItem{}};
  if (key == kOwnCodeKind) return item;
  if (key == "GraphExecutorFactory" || key == "GraphRuntimeFactory") {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadGraphFactory(reader));
  } else if (key == "const_loader" || key == "metadata") {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadConstants(reader));
  } else if (std::ranges::find(kDeviceKeys, key) != std::end(kDeviceKeys)) {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadDeviceCode(reader));
  } else if (IsBytecodeKind(key)) {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadBytecode(reader));
  } else {
    // The message shows the beginning of a key, which may be as long as the
    // file.
    return Unimplemented(
        "{} (a module of kind \"{}\": known are _lib, GraphExecutorFactory, "
        "GraphRuntimeFactory, const_loader, metadata, relax.Executable and "
        "device code)",
        MessageOf(reader->ErrorAt(start, "module kind is not known")),
        key.substr(0, 64));
  }
  return item;
}

absl::Status ReadImportTree(ByteReader* reader, size_t start,
                            std::optional<ImportTree>* tree) {
  if (tree->has_value()) {
    return reader->ErrorAt(start, "there is an import tree already");
  }
  NODEWISE_ASSIGN_OR_RETURN(auto rows, ReadNumbers(reader, "import tree row"));
  NODEWISE_ASSIGN_OR_RETURN(auto children,
                            ReadNumbers(reader, "import tree child"));
  *tree = ImportTree{start, std::move(rows), std::move(children)};
  return absl::OkStatus();
}

// All but the own code is bytes with a length, so that unknown kinds can be
// passed over.
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

// Returns a reader of what follows a length, as both formats begin.
absl::StatusOr<ByteReader> ReaderBehindLength(absl::Span<const uint8_t> bytes,
                                              std::string where,
                                              const char* length,
                                              const char* what) {
  ByteReader outer(bytes, where);
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t size, outer.Read<uint64_t>(length));
  NODEWISE_ASSIGN_OR_RETURN(const auto stream, outer.Bytes(what, size));
  return ByteReader(stream, std::move(where), sizeof(uint64_t));
}

}  // namespace

absl::StatusOr<ModuleBlob> ParseModuleBlob(absl::Span<const uint8_t> bytes,
                                           std::string where) {
  NODEWISE_ASSIGN_OR_RETURN(
      ByteReader reader, ReaderBehindLength(bytes, std::move(where),
                                            "module blob size", "module blob"));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader.Count("module count", kLeastString));
  if (count > kMostModules) {
    return reader.ErrorAt(
        0, fmt::format("module count is {}, expected at most {}", count,
                       kMostModules));
  }
  ModuleBlob blob;
  std::optional<ImportTree> tree;
  for (uint64_t i = 0; i < count; ++i) {
    const size_t start = reader.offset();
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view key,
                              reader.String("module kind"));
    if (key == "_import_tree") {
      NODEWISE_RETURN_IF_ERROR(ReadImportTree(&reader, start, &tree));
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(blob.items.emplace_back(),
                              ReadItem(&reader, start, key));
  }
  // The import tree describes all modules, wherever it is among them.
  if (!tree) return blob;
  NODEWISE_ASSIGN_OR_RETURN(blob.children,
                            PlaceImports(reader, *tree, blob.items.size(),
                                         {"but there are", "but there are"}));
  return blob;
}

absl::StatusOr<LibraryBin> ParseLibraryBin(absl::Span<const uint8_t> bytes,
                                           std::string where) {
  NODEWISE_ASSIGN_OR_RETURN(
      ByteReader reader,
      ReaderBehindLength(bytes, std::move(where), "library data size",
                         "library data"));
  ImportTree tree;
  NODEWISE_ASSIGN_OR_RETURN(
      tree.rows, ReadNumbers(&reader, "import tree rows", kMostModules + 1));
  NODEWISE_ASSIGN_OR_RETURN(
      tree.children,
      ReadNumbers(&reader, "import tree children", kMostImports));
  LibraryBin bin;
  // The rows were limited, so this ends before too many modules are kept.
  while (reader.left() > 0 && bin.modules.size() < tree.rows.size()) {
    NODEWISE_ASSIGN_OR_RETURN(bin.modules.emplace_back(), ReadModule(&reader));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      Imports imports,
      PlaceImports(reader, tree, bin.modules.size(),
                   {"expected a part of the", "expected one of the"}));
  for (size_t i = 0; i < imports.size(); ++i) {
    bin.modules[i].imports = std::move(imports[i]);
  }
  return bin;
}

}  // namespace nodewise
