#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/record.h"

namespace nodewise {

// What a library carries besides its code, taken apart without running
// anything. Everything borrows the bytes.

// TVM 0.6 to 0.20: the blob (docs/formats/module_blob.md).

inline constexpr char kBlobName[] = "__tvm_dev_mblob";

// `_lib`: the library's own code.
struct OwnCodeItem {};

// `GraphExecutorFactory`, `GraphRuntimeFactory`: a whole artefact.
struct GraphFactoryItem {
  std::string_view graph_json;
  std::vector<std::pair<std::string_view, TensorRecord>> params;
  std::string_view module_name;
};

// `const_loader`, `metadata`: constants for modules of vendor compilers.
struct ConstantsItem {
  std::vector<std::pair<std::string_view, TensorRecord>> constants;
  // Each symbol with the names of the constants that it needs.
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>>
      symbols;
};

// `cuda`, `opencl`, ...: code for a device.
struct DeviceFunction {
  std::string_view name;
  std::vector<DLDataType> arg_types;
  std::vector<std::string_view> launch_tags;
};
struct DeviceCodeItem {
  std::string_view format;
  std::vector<DeviceFunction> functions;
  std::string_view code;
};

// `relax.Executable`, `relax.VMExecutable`: bytecode of the Relax VM, which
// ParseVmExecutable reads.
struct BytecodeItem {
  absl::Span<const uint8_t> bytes;
  uint64_t offset = 0;  // Where `bytes` is in the blob.
};

struct BlobItem {
  std::string_view key;
  std::variant<OwnCodeItem, GraphFactoryItem, ConstantsItem, DeviceCodeItem,
               BytecodeItem>
      content;
};

struct ModuleBlob {
  std::vector<BlobItem> items;
  // The children of item i, as indices of items; item 0 is the root. Without an
  // import tree (TVM 0.6) this is empty, and all items are imports of the
  // library.
  std::vector<std::vector<uint32_t>> children;
  bool has_import_tree() const { return !children.empty(); }
};

// Parses a blob, which begins with its own length; `bytes` may go on after it.
// Fails with kUnimplemented for an item of an unknown kind, because only its
// loader knows its length, and with kDataLoss, with the byte, for anything else
// that is wrong.
absl::StatusOr<ModuleBlob> ParseModuleBlob(absl::Span<const uint8_t> bytes,
                                           std::string where);

// TVM-FFI: the library's data (docs/formats/vm_library.md).

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

}  // namespace nodewise
