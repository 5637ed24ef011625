#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// What a TVM-FFI library carries besides its code, taken apart without running
// anything (docs/formats/vm_library.md). Everything borrows the bytes.

// The symbol's names in TVM 0.22 and later and in 0.21.
inline constexpr std::string_view kLibraryBinNames[] = {
    "__tvm_ffi__library_bin", "__tvm_ffi_library_bin"};

// The kind of the library's own code.
inline constexpr std::string_view kOwnCodeKind = "_lib";

// Returns whether it is bytecode of the Relax VM, by its name since TVM 0.20 or
// before.
inline bool IsBytecodeKind(std::string_view kind) {
  return kind == "relax.VMExecutable" || kind == "relax.Executable";
}

struct LibraryBinModule {
  std::string_view kind;           // "_lib", "relax.VMExecutable", "cuda", ...
  absl::Span<const uint8_t> data;  // Empty for "_lib".
  uint64_t offset = 0;             // Where `data` is in the symbol.
  std::vector<uint32_t> imports;   // Indices of modules.
};

// Module 0 is the root; imports never form a cycle.
struct LibraryBin {
  std::vector<LibraryBinModule> modules;
};

// Parses the symbol's bytes, which begin with the length of what follows and
// may go on after it. Fails with kDataLoss, with the byte, for anything that is
// wrong. Does not look at what the modules hold.
absl::StatusOr<LibraryBin> ParseLibraryBin(absl::Span<const uint8_t> bytes,
                                           std::string where);

// Returns whether following imports always comes to an end. REQUIRES: every
// import is the index of a row.
bool IsAcyclic(const std::vector<std::vector<uint32_t>>& imports);

}  // namespace nodewise
