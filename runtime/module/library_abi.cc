#include "runtime/module/library_abi.h"

#include <algorithm>
#include <iterator>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The wrapper of the entry function in TVM 0.21.
constexpr std::string_view kOldMain = "__tvm_ffi_main__";
constexpr std::string_view kMain = "__tvm_ffi_main";

// The start of the names of TVM-FFI's runtime functions, and of the pointers to
// them that the runtime fills in.
constexpr std::string_view kFfiFunctions = "TVMFFI";
constexpr std::string_view kFfiPointers = "__TVMFFI";

// What only code of the classic convention has or calls.
constexpr std::string_view kClassicNames[] = {
    "__TVMAPISetLastError", "__TVMFuncCall", "__tvm_module_ctx",
    "__tvm_dev_mblob",      "TVMFuncCall",   "TVMAPISetLastError"};

bool IsClassicSign(const ElfSymbol& symbol) {
  return std::ranges::find(kClassicNames, symbol.name) !=
         std::end(kClassicNames);
}

// Returns whether the code calls a function of TVM-FFI's runtime: by its name,
// or through a weak pointer, which the LLVM target has for each that it calls.
// Any other variable of such a name says nothing about the functions.
bool CallsFfi(const ElfSymbol& symbol) {
  if (!symbol.defined) return symbol.name.starts_with(kFfiFunctions);
  return symbol.weak && symbol.kind == ElfSymbol::Kind::kData &&
         symbol.size == sizeof(void*) && symbol.name.starts_with(kFfiPointers);
}

bool IsFfiContext(std::string_view name) {
  return std::ranges::find(kFfiContextNames, name) !=
         std::end(kFfiContextNames);
}

bool IsSetByRuntime(std::string_view name) {
  return name.starts_with("__TVM") || name == "__tvm_module_ctx" ||
         IsFfiContext(name);
}

bool IsDescription(std::string_view name) {
  return name.starts_with("__tvm_ffi__metadata_") ||
         name.starts_with("__tvm_ffi__doc_") || IsFfiContext(name) ||
         name == "__tvm_ffi__library_bin";
}

// In TVM 0.21 the wrapper of the entry function is the only one with a prefix.
bool IsKernel(const ElfSymbol& symbol, LibraryAbi abi) {
  // Only what others find by name can be called by a graph.
  if (!symbol.IsFunction()) return false;
  if (abi == LibraryAbi::kPackedC) return true;
  if (symbol.name == kOldMain) return false;
  if (abi == LibraryAbi::kFfiBare) return true;
  if (!symbol.name.starts_with(kFfiPrefix)) return false;
  // If weak, it wraps another; an entry function may have that name itself.
  if (symbol.name == kMain && symbol.weak) return false;
  return !IsDescription(symbol.name);
}

}  // namespace

// One prefixed function settles it. Without any, calls of TVM-FFI's runtime
// tell 0.21, unless there are signs of the classic convention: a library may be
// linked of both.
LibraryAbi AbiOf(const ElfFile& elf) {
  bool has_old_main = false, calls_ffi = false, is_classic = false;
  for (const ElfSymbol& symbol : elf.symbols) {
    if (symbol.IsFunction() && symbol.name.starts_with(kFfiPrefix)) {
      if (symbol.name != kOldMain) return LibraryAbi::kFfiPrefixed;
      has_old_main = true;
    }
    calls_ffi = calls_ffi || CallsFfi(symbol);
    is_classic = is_classic || IsClassicSign(symbol);
  }
  const bool is_ffi = has_old_main || (calls_ffi && !is_classic);
  return is_ffi ? LibraryAbi::kFfiBare : LibraryAbi::kPackedC;
}

// A caller may give the symbol itself, prefix and all.
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
  std::ranges::sort(names);
  return names;
}

// Both faults would only show in a crash, the first when the code calls a
// virtual machine that is not there, the second when the pointer is written.
absl::Status CheckKind(const ElfFile& elf) {
  for (const ElfSymbol& symbol : elf.symbols) {
    if (symbol.defined || !symbol.name.starts_with("TVMBackendAnyList")) {
      continue;
    }
    return Unimplemented(
        "{}: was compiled with exec_mode=\"compiled\": its code drives TVM's "
        "virtual machine (it calls {}), expected kernels or bytecode (compile "
        "it with exec_mode=\"bytecode\", the default)",
        elf.where, symbol.name);
  }
  for (const ElfSymbol& symbol : elf.symbols) {
    if (!symbol.IsVariable() || !IsSetByRuntime(symbol.name) ||
        IsWritable(elf, symbol, sizeof(void*))) {
      continue;
    }
    return InvalidArgument(
        "{}: {} is not a variable that a pointer can be written into, expected "
        "one, as TVM's runtime fills it in (give it another name)",
        elf.where, symbol.name);
  }
  return absl::OkStatus();
}

}  // namespace nodewise
