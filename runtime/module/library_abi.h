#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/module/elf.h"

namespace nodewise {

// How the functions of a compiled library are called and what they are called.
enum class LibraryAbi {
  kPackedC,      // TVM 0.6 to 0.20.
  kFfiBare,      // TVM 0.21: TVM-FFI's convention, names as in the graph.
  kFfiPrefixed,  // TVM 0.22 and later: __tvm_ffi_NAME.
};

inline constexpr std::string_view kFfiPrefix = "__tvm_ffi_";
// Where a library of TVM-FFI holds what its loader is to be asked with.
inline constexpr std::string_view kFfiContextNames[] = {
    "__tvm_ffi__library_ctx", "__tvm_ffi_library_ctx"};

LibraryAbi AbiOf(const ElfFile& elf);

// The symbol of a function that a graph or other code knows by `name`.
std::string SymbolOf(LibraryAbi abi, std::string_view name);

// The names that graphs know the exported functions by, sorted. Without those
// that TVM-FFI adds: the wrapper of an entry function, which is still there for
// who asks, and what describes functions.
std::vector<std::string> KernelNames(const ElfFile& elf, LibraryAbi abi);

// kUnimplemented, with the reason, if the code is of a kind that runs only
// inside TVM's virtual machine.
absl::Status CheckKind(const ElfFile& elf);

}  // namespace nodewise
