#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/module/elf.h"

namespace nodewise {

// The calling convention and the names of a compiled library's functions.
enum class LibraryAbi {
  kPackedC,      // TVM 0.6 to 0.20.
  kFfiBare,      // TVM 0.21: TVM-FFI's convention, names as in the graph.
  kFfiPrefixed,  // TVM 0.22 and later: __tvm_ffi_NAME.
};

inline constexpr std::string_view kFfiPrefix = "__tvm_ffi_";
// The variables in which a TVM-FFI library holds the context that it passes to
// its loader.
inline constexpr std::string_view kFfiContextNames[] = {
    "__tvm_ffi__library_ctx", "__tvm_ffi_library_ctx"};

// Tells the convention by functions: those that the library has under TVM-FFI's
// names, and those of TVM-FFI's runtime that its code calls. A variable with
// such a name says nothing.
LibraryAbi AbiOf(const ElfFile& elf);

// Returns the symbol of a function that a graph or other code knows by `name`.
std::string SymbolOf(LibraryAbi abi, std::string_view name);

// Returns the names by which graphs know the exported functions, sorted. Leaves
// out what TVM-FFI adds: the wrapper of an entry function, which can still be
// asked for, and functions that describe others.
std::vector<std::string> KernelNames(const ElfFile& elf, LibraryAbi abi);

// Fails with kUnimplemented, with the reason, if the code is of a kind that
// runs only inside TVM's virtual machine; with kInvalidArgument if a variable
// that the runtime fills in with a pointer cannot hold one.
absl::Status CheckKind(const ElfFile& elf);

}  // namespace nodewise
