#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/support/file.h"

namespace nodewise {

// What a compiled library says about itself, read from the file without loading
// it. Plain values; nothing borrows the file.

// A module in the library's blob.
struct ModuleSummary {
  std::string kind;  // "_lib", "GraphExecutorFactory", "opencl", ...
  std::vector<uint32_t> imports;  // Indices of modules.
  // The format and functions of device code; the size of device code and
  // bytecode.
  std::string format;
  std::vector<std::string> functions;
  uint64_t code_bytes = 0;
  // For a factory: the graph's JSON and the module's name.
  std::string graph_json;
  std::string module_name;
  struct Tensor {
    std::string name;
    DLDataType dtype{};
    std::vector<int64_t> shape;
  };
  std::vector<Tensor> tensors;  // Parameters, or constants.
};

struct LibrarySummary {
  std::string path;
  uint64_t bytes = 0;
  std::string machine;  // "x86-64"
  int bits = 0;
  std::string type;  // "shared library"
  std::string build_id;
  std::vector<std::string> needed;
  std::vector<std::string> functions;      // Compiled functions.
  std::vector<std::string> context;        // Pointers the runtime must fill in.
  std::vector<std::string> runtime_calls;  // TVM functions called directly.
  std::string abi;     // "TVM packed C functions" or "TVM-FFI", or "none".
  std::string target;  // "llvm", "c", or "" if it cannot be told.
  std::string era;     // "0.8 to 0.10", or "" if it cannot be told.
  std::vector<std::string> era_evidence;
  std::vector<ModuleSummary> modules;
  bool has_bytecode = false;  // For the Relax VM; see vm_library.h.
  // The fault in the blob; the rest is still valid.
  absl::Status blob_status;
  // Why a sound library still cannot run here, where the file shows it.
  absl::Status run_status;
};

absl::StatusOr<LibrarySummary> SummariseLibrary(const std::string& path);

// The bytecode that a library file carries for TVM's Relax VM, unread.
struct LibraryBytecode {
  std::shared_ptr<const MappedFile> file;  // `bytes` borrows it.
  std::string where;                       // The name for messages.
  absl::Span<const uint8_t> bytes;
  uint64_t offset = 0;  // Where bytes[0] is in its symbol.
  bool is_ffi = true;   // Made by TVM 0.21 or later; else by 0.18 to 0.20.
  // The functions that the library's own code has, as the bytecode calls them;
  // sorted.
  std::vector<std::string> kernels;
};

// Finds the bytecode without loading any code; returns nothing if the library
// has none. Fails as MappedFile::Open does, or with kInvalidArgument for a file
// that is not a library, or kDataLoss for a damaged one.
absl::StatusOr<std::optional<LibraryBytecode>> FindBytecode(
    const std::string& path);

}  // namespace nodewise
