#include "runtime/module/module_blob.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/library_bin.h"

namespace nodewise {
namespace {

// The keys of device modules, which all have one layout.
constexpr std::string_view kDeviceKeys[] = {
    "cuda",   "opencl", "rocm", "hip",     "metal",
    "vulkan", "webgpu", "aocl", "sdaccel", "aocl_sw_emu"};
constexpr uint64_t kLeastString = sizeof(uint64_t);
// Real libraries hold a handful; a lying count must not cost memory.
constexpr uint64_t kMostModules = 1024;

struct ImportTree {
  size_t offset;
  std::vector<uint64_t> row_ptr;
  std::vector<uint64_t> children;
};

absl::StatusOr<std::vector<std::string_view>> ReadStrings(ByteReader* reader,
                                                          const char* what) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count(what, kLeastString));
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view text,
                              reader->String(what));
    strings.push_back(text);
  }
  return strings;
}

absl::StatusOr<std::vector<uint64_t>> ReadNumbers(ByteReader* reader,
                                                  const char* what) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count(what, sizeof(uint64_t)));
  std::vector<uint64_t> numbers;
  numbers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t number,
                              reader->Read<uint64_t>(what));
    numbers.push_back(number);
  }
  return numbers;
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
    return reader->ErrorAt(
        count_at, fmt::format("parameter count is {}, expected {} (one per "
                              "name)",
                              count, names.size()));
  }
  NODEWISE_ASSIGN_OR_RETURN(item.params, ReadTensors(reader, names));
  NODEWISE_ASSIGN_OR_RETURN(item.module_name, reader->String("module name"));
  return item;
}

absl::StatusOr<ConstantsItem> ReadConstants(ByteReader* reader) {
  ConstantsItem item;
  NODEWISE_ASSIGN_OR_RETURN(const auto names,
                            ReadStrings(reader, "constant name"));
  const size_t count_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count("constant count", kLeastRecordBytes));
  if (count != names.size()) {
    return reader->ErrorAt(count_at,
                           fmt::format("constant count is {}, expected {} "
                                       "(one per name)",
                                       count, names.size()));
  }
  NODEWISE_ASSIGN_OR_RETURN(item.constants, ReadTensors(reader, names));
  NODEWISE_ASSIGN_OR_RETURN(const auto symbols, ReadStrings(reader, "symbol"));
  const size_t lists_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t lists,
                            reader->Count("symbol list count", kLeastString));
  if (lists != symbols.size()) {
    return reader->ErrorAt(
        lists_at, fmt::format("symbol list count is {}, expected {} (one "
                              "per symbol)",
                              lists, symbols.size()));
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
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count("argument types", 4));
  function.arg_types.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype,
                              reader->Read<DLDataType>("argument type"));
    function.arg_types.push_back(dtype);
  }
  NODEWISE_ASSIGN_OR_RETURN(function.launch_tags,
                            ReadStrings(reader, "launch tag"));
  return function;
}

absl::StatusOr<DeviceCodeItem> ReadDeviceCode(ByteReader* reader) {
  DeviceCodeItem item;
  NODEWISE_ASSIGN_OR_RETURN(item.format, reader->String("code format"));
  // Four lengths or counts belong to each function.
  NODEWISE_ASSIGN_OR_RETURN(
      const uint64_t count,
      reader->Count("device function count", 4 * kLeastString));
  item.functions.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(auto function, ReadDeviceFunction(reader));
    item.functions.push_back(std::move(function));
  }
  NODEWISE_ASSIGN_OR_RETURN(item.code, reader->String("device code"));
  return item;
}

absl::StatusOr<BytecodeItem> ReadBytecode(ByteReader* reader) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view bytes,
                            reader->String("bytecode"));
  return BytecodeItem{
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      sizeof(uint64_t) + reader->offset() - bytes.size()};
}

absl::StatusOr<BlobItem> ReadItem(ByteReader* reader, size_t start,
                                  std::string_view key) {
  BlobItem item{key, OwnCodeItem{}};
  if (key == "_lib") return item;
  if (key == "GraphExecutorFactory" || key == "GraphRuntimeFactory") {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadGraphFactory(reader));
    return item;
  }
  if (key == "const_loader" || key == "metadata") {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadConstants(reader));
    return item;
  }
  if (std::find(std::begin(kDeviceKeys), std::end(kDeviceKeys), key) !=
      std::end(kDeviceKeys)) {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadDeviceCode(reader));
    return item;
  }
  if (IsBytecodeKind(key)) {
    NODEWISE_ASSIGN_OR_RETURN(item.content, ReadBytecode(reader));
    return item;
  }
  return absl::UnimplementedError(fmt::format(
      "{} (a module of kind \"{}\": known are _lib, GraphExecutorFactory, "
      "GraphRuntimeFactory, const_loader, metadata, relax.Executable and "
      "device code)",
      MessageOf(reader->ErrorAt(start, "module kind is not known")),
      key.substr(0, 64)));
}

absl::Status ReadImportTree(ByteReader* reader, size_t start,
                            std::optional<ImportTree>* tree) {
  if (tree->has_value()) {
    return reader->ErrorAt(start, "there is an import tree already");
  }
  NODEWISE_ASSIGN_OR_RETURN(auto row_ptr,
                            ReadNumbers(reader, "import tree row"));
  NODEWISE_ASSIGN_OR_RETURN(auto children,
                            ReadNumbers(reader, "import tree child"));
  *tree = ImportTree{start, std::move(row_ptr), std::move(children)};
  return absl::OkStatus();
}

absl::Status PlaceChildren(const ByteReader& reader, const ImportTree& tree,
                           ModuleBlob* blob) {
  const size_t start = tree.offset;
  const size_t modules = blob->items.size();
  if (tree.row_ptr.size() != modules + 1) {
    return reader.ErrorAt(
        start, fmt::format("import tree has {} rows, expected {} (one per "
                           "module and one more)",
                           tree.row_ptr.size(), modules + 1));
  }
  blob->children.assign(modules, {});
  for (size_t i = 0; i < modules; ++i) {
    if (tree.row_ptr[i] > tree.row_ptr[i + 1] ||
        tree.row_ptr[i + 1] > tree.children.size()) {
      return reader.ErrorAt(
          start, fmt::format("import tree row {} is [{}, {}), but there "
                             "are {} children",
                             i, tree.row_ptr[i], tree.row_ptr[i + 1],
                             tree.children.size()));
    }
    for (uint64_t c = tree.row_ptr[i]; c < tree.row_ptr[i + 1]; ++c) {
      if (tree.children[c] >= modules) {
        return reader.ErrorAt(
            start, fmt::format("module {} imports module {}, but there are "
                               "{} modules",
                               i, tree.children[c], modules));
      }
      blob->children[i].push_back(static_cast<uint32_t>(tree.children[c]));
    }
  }
  if (IsAcyclic(blob->children)) return absl::OkStatus();
  return reader.ErrorAt(start, "modules import each other in a circle");
}

}  // namespace

absl::StatusOr<ModuleBlob> ParseModuleBlob(absl::Span<const uint8_t> bytes,
                                           std::string where) {
  ByteReader outer(bytes, where);
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t size,
                            outer.Read<uint64_t>("module blob size"));
  NODEWISE_ASSIGN_OR_RETURN(const auto stream,
                            outer.Bytes("module blob", size));
  ByteReader reader(stream, std::move(where), sizeof(uint64_t));
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader.Count("module count", kLeastString));
  if (count > kMostModules) {
    return reader.ErrorAt(0, fmt::format("module count is {}, expected at "
                                         "most {}",
                                         count, kMostModules));
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
    NODEWISE_ASSIGN_OR_RETURN(BlobItem item, ReadItem(&reader, start, key));
    blob.items.push_back(std::move(item));
  }
  // The import tree describes all modules, wherever it is among them.
  if (tree) NODEWISE_RETURN_IF_ERROR(PlaceChildren(reader, *tree, &blob));
  return blob;
}

}  // namespace nodewise
