#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// What a library of TVM-FFI carries beside its code, taken apart without
// running anything (docs/formats/vm_library.md). Everything borrows the bytes.

// The symbol, as TVM 0.22 and later call it and as 0.21 does.
inline constexpr std::string_view kLibraryBinNames[] = {
    "__tvm_ffi__library_bin", "__tvm_ffi_library_bin"};

// The kind of the library's own code.
inline constexpr std::string_view kOwnCodeKind = "_lib";

// Bytecode of the Relax VM, as TVM 0.20 and later call it and as before.
inline bool IsBytecodeKind(std::string_view kind) {
  return kind == "relax.VMExecutable" || kind == "relax.Executable";
}

struct LibraryBinModule {
  std::string_view kind;           // "_lib", "relax.VMExecutable", "cuda", ...
  absl::Span<const uint8_t> data;  // Empty for "_lib".
  uint64_t offset = 0;             // Of `data`, from the symbol's first byte.
  std::vector<uint32_t> imports;   // Numbers of modules.
};

// Module 0 is the root; imports never form a circle.
struct LibraryBin {
  std::vector<LibraryBinModule> modules;
};

// `bytes` begins with the length of what follows and may go on behind it.
// kDataLoss with the byte for anything that is wrong. What a kind holds is not
// looked at.
absl::StatusOr<LibraryBin> ParseLibraryBin(absl::Span<const uint8_t> bytes,
                                           std::string where);

// True if following imports always comes to an end. REQUIRES: every import is
// a number of a row.
bool IsAcyclic(const std::vector<std::vector<uint32_t>>& imports);

}  // namespace nodewise
