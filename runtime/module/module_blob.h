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

// What a library carries under __tvm_dev_mblob, taken apart without running
// anything (docs/formats/module_blob.md). Everything borrows the bytes.

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

}  // namespace nodewise
