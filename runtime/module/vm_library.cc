#include "nodewise/runtime/vm_library.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/elf.h"
#include "runtime/module/library_abi.h"
#include "runtime/module/library_bin.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

constexpr std::string_view kClassicBlob = "__tvm_dev_mblob";

// The bytecode of a library of TVM-FFI, or nothing.
absl::StatusOr<std::optional<VmExecutable>> FindModern(const ElfFile& elf) {
  for (const std::string_view name : kLibraryBinNames) {
    const ElfSymbol* symbol = FindSymbol(elf, name);
    if (symbol == nullptr) continue;
    const std::string where = absl::StrFormat("%s: %s", elf.where, name);
    NODEWISE_ASSIGN_OR_RETURN(const auto bytes, BytesAt(elf, symbol->value));
    NODEWISE_ASSIGN_OR_RETURN(const LibraryBin bin,
                              ParseLibraryBin(bytes, where));
    for (const LibraryBinModule& module : bin.modules) {
      if (!IsBytecodeKind(module.kind)) continue;
      return ParseVmExecutable(module.data, where, module.offset, VmEra::kFfi);
    }
  }
  return std::nullopt;
}

// The same of TVM 0.18 to 0.20. Loading the library says what else may be
// wrong with its blob.
absl::StatusOr<std::optional<VmExecutable>> FindClassic(const ElfFile& elf) {
  const ElfSymbol* symbol = FindSymbol(elf, kClassicBlob);
  if (symbol == nullptr) return std::nullopt;
  const std::string where = absl::StrFormat("%s: %s", elf.where, kClassicBlob);
  const auto bytes = BytesAt(elf, symbol->value);
  if (!bytes.ok()) return std::nullopt;
  const auto blob = ParseModuleBlob(*bytes, where);
  if (!blob.ok()) return std::nullopt;
  for (const BlobItem& item : blob->items) {
    const auto* bytecode = std::get_if<BytecodeItem>(&item.content);
    if (bytecode == nullptr) continue;
    return ParseVmExecutable(bytecode->bytes, where, bytecode->offset,
                             VmEra::kClassic);
  }
  return std::nullopt;
}

}  // namespace

bool VmLibrary::HasKernel(std::string_view name) const {
  return std::binary_search(kernels.begin(), kernels.end(), name);
}

absl::StatusOr<std::unique_ptr<VmLibrary>> OpenVmLibrary(
    const std::string& path) {
  auto library = std::make_unique<VmLibrary>();
  library->path = path;
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  library->file = std::make_shared<const MappedFile>(std::move(file));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf,
                            ParseElf(library->file->bytes(), path));
  NODEWISE_ASSIGN_OR_RETURN(std::optional<VmExecutable> found, FindModern(elf));
  if (!found.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(found, FindClassic(elf));
  }
  if (!found.has_value()) return nullptr;
  library->executable = *std::move(found);
  library->kernels = KernelNames(elf, AbiOf(elf));
  return library;
}

}  // namespace nodewise
