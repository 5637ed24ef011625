#include "runtime/module/library_abi.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"

namespace nodewise {
namespace {

// The wrapper of the entry function in TVM 0.21.
constexpr std::string_view kOldMain = "__tvm_ffi_main__";
constexpr std::string_view kMain = "__tvm_ffi_main";

bool IsExportedFunction(const ElfSymbol& symbol) {
  return symbol.defined && !symbol.local &&
         symbol.kind == ElfSymbol::Kind::kFunction;
}

bool IsOfFfi(std::string_view name) {
  return name.starts_with(kFfiPrefix) || name.starts_with("__TVMFFI") ||
         name.starts_with("TVMFFI");
}

// Returns whether it is a function that describes others of the library.
bool IsDescription(std::string_view name) {
  return name.starts_with("__tvm_ffi__metadata_") ||
         name.starts_with("__tvm_ffi__doc_") ||
         std::find(std::begin(kFfiContextNames), std::end(kFfiContextNames),
                   name) != std::end(kFfiContextNames) ||
         name == "__tvm_ffi__library_bin";
}

bool IsKernel(const ElfSymbol& symbol, LibraryAbi abi) {
  if (!IsExportedFunction(symbol)) return false;
  if (abi == LibraryAbi::kPackedC) return true;
  if (symbol.name == kOldMain) return false;
  if (abi == LibraryAbi::kFfiBare) return true;
  if (!symbol.name.starts_with(kFfiPrefix)) return false;
  // If weak, it wraps another; an entry function may have that name itself.
  if (symbol.name == kMain && symbol.weak) return false;
  return !IsDescription(symbol.name);
}

}  // namespace

LibraryAbi AbiOf(const ElfFile& elf) {
  bool is_ffi = false;
  for (const ElfSymbol& symbol : elf.symbols) {
    if (!IsOfFfi(symbol.name)) continue;
    is_ffi = true;
    if (IsExportedFunction(symbol) && symbol.name != kOldMain &&
        symbol.name.starts_with(kFfiPrefix)) {
      return LibraryAbi::kFfiPrefixed;
    }
  }
  return is_ffi ? LibraryAbi::kFfiBare : LibraryAbi::kPackedC;
}

std::string SymbolOf(LibraryAbi abi, std::string_view name) {
  const bool is_symbol =
      abi != LibraryAbi::kFfiPrefixed || name.starts_with(kFfiPrefix);
  return is_symbol ? std::string(name) : std::string(kFfiPrefix).append(name);
}

std::vector<std::string> KernelNames(const ElfFile& elf, LibraryAbi abi) {
  const size_t skip = abi == LibraryAbi::kFfiPrefixed ? kFfiPrefix.size() : 0;
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : elf.symbols) {
    if (IsKernel(symbol, abi)) names.emplace_back(symbol.name.substr(skip));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status CheckKind(const ElfFile& elf) {
  for (const ElfSymbol& symbol : elf.symbols) {
    if (symbol.defined || !symbol.name.starts_with("TVMBackendAnyList")) {
      continue;
    }
    return absl::UnimplementedError(fmt::format(
        "{}: was compiled with exec_mode=\"compiled\": its code drives TVM's "
        "virtual machine (it calls {}), expected kernels or bytecode (compile "
        "it with exec_mode=\"bytecode\", the default)",
        elf.where, symbol.name));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
