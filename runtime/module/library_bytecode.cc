#include "nodewise/module/library_bytecode.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/elf.h"
#include "runtime/module/library_abi.h"
#include "runtime/module/library_bin.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

constexpr std::string_view kClassicBlob = "__tvm_dev_mblob";

// Fills in what a TVM-FFI library carries; returns false if it has no bytecode.
absl::StatusOr<bool> FindModern(const ElfFile& elf, LibraryBytecode* found) {
  for (const std::string_view name : kLibraryBinNames) {
    const ElfSymbol* symbol = FindSymbol(elf, name);
    if (symbol == nullptr) continue;
    found->where = fmt::format("{}: {}", elf.where, name);
    NODEWISE_ASSIGN_OR_RETURN(const auto bytes, BytesAt(elf, symbol->value));
    NODEWISE_ASSIGN_OR_RETURN(const LibraryBin bin,
                              ParseLibraryBin(bytes, found->where));
    for (const LibraryBinModule& module : bin.modules) {
      if (!IsBytecodeKind(module.kind)) continue;
      found->bytes = module.data;
      found->offset = module.offset;
      return true;
    }
  }
  return false;
}

// Does what FindModern does, for a library of TVM 0.18 to 0.20. Loading the
// library reports what else may be wrong with its blob.
bool FindClassic(const ElfFile& elf, LibraryBytecode* found) {
  const ElfSymbol* symbol = FindSymbol(elf, kClassicBlob);
  if (symbol == nullptr) return false;
  found->where = fmt::format("{}: {}", elf.where, kClassicBlob);
  const auto bytes = BytesAt(elf, symbol->value);
  if (!bytes.ok()) return false;
  const auto blob = ParseModuleBlob(*bytes, found->where);
  if (!blob.ok()) return false;
  for (const BlobItem& item : blob->items) {
    const auto* bytecode = std::get_if<BytecodeItem>(&item.content);
    if (bytecode == nullptr) continue;
    found->bytes = bytecode->bytes;
    found->offset = bytecode->offset;
    found->is_ffi = false;
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::optional<LibraryBytecode>> FindBytecode(
    const std::string& path) {
  LibraryBytecode found;
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  found.file = std::make_shared<const MappedFile>(std::move(file));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf,
                            ParseElf(found.file->bytes(), path));
  NODEWISE_ASSIGN_OR_RETURN(bool has_bytecode, FindModern(elf, &found));
  if (!has_bytecode) has_bytecode = FindClassic(elf, &found);
  if (!has_bytecode) return std::nullopt;
  found.kernels = KernelNames(elf, AbiOf(elf));
  return found;
}

}  // namespace nodewise
