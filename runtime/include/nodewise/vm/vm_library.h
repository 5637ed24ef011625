#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/ndarray/record.h"
#include "nodewise/support/file.h"

namespace nodewise {

// The bytecode of TVM's Relax VM, which tvm.compile(...).export_library()
// leaves in a library beside the kernels (docs/formats/vm_library.md). Read
// from the file; no code of it is loaded. Everything borrows the bytes.

// Who wrote it: constants have other tags, and types other codes.
enum class VmEra {
  kClassic,  // TVM 0.18 to 0.20: under __tvm_dev_mblob
  kFfi,      // TVM 0.21 and later: under __tvm_ffi__library_bin
};

struct VmShape {
  std::vector<int64_t> dims;
};
using VmConstant = std::variant<TensorRecord, VmShape, std::string_view,
                                int64_t, double, DLDataType>;

struct VmFunction {
  enum class Kind {
    kPacked = 0,    // A kernel, or a function of TVM's runtime, by name.
    kBytecode = 1,  // Instructions [first, end).
    kCompiled = 2,  // The symbol __vmtir__NAME; exec_mode="compiled".
  };
  Kind kind = Kind::kPacked;
  std::string_view name;
  int64_t first = 0;
  int64_t end = 0;
  int64_t num_args = 0;
  int64_t num_registers = 0;
  std::vector<std::string_view> params;  // Empty, or one name per argument.
};

// Registers that hold nothing, and the machine itself.
inline constexpr int64_t kVmVoidRegister = int64_t{1} << 54;
inline constexpr int64_t kVmContextRegister = kVmVoidRegister + 1;

struct VmArgument {
  enum class Kind { kRegister = 0, kImmediate = 1, kConstant = 2, kFunction };
  Kind kind = Kind::kRegister;
  int64_t value = 0;
};

struct VmInstruction {
  enum class Opcode { kCall = 1, kReturn = 2, kGoto = 3, kIf = 4 };
  Opcode opcode = Opcode::kCall;
  int64_t target = 0;    // The register written, returned or asked.
  int64_t function = 0;  // Of a call: its number in the table.
  std::vector<VmArgument> args;
};

struct VmExecutable {
  std::string where;  // The name for messages.
  VmEra era = VmEra::kFfi;
  std::string_view version;
  std::vector<VmFunction> functions;
  // Constants that are to lie in a memory that is named, by their numbers.
  std::vector<std::pair<int64_t, std::string_view>> memory_scopes;
  std::vector<VmConstant> constants;
  // i64 each, at any alignment: where an instruction begins, and the words.
  absl::Span<const uint8_t> offsets;
  absl::Span<const uint8_t> words;

  int64_t num_instructions() const {
    return static_cast<int64_t>(offsets.size() / sizeof(int64_t));
  }
};

// kDataLoss with the byte for anything that is wrong. Functions lie inside the
// instructions; the instructions themselves are checked by DecodeVmInstruction.
// `base` is the offset of bytes[0], for the messages.
absl::StatusOr<VmExecutable> ParseVmExecutable(absl::Span<const uint8_t> bytes,
                                               std::string where, uint64_t base,
                                               VmEra era);

// An instruction whose arguments are of a known kind and lie in the tables;
// registers are not checked. kDataLoss if its words say otherwise; the message
// has no place. REQUIRES: `index` is one of the executable's instructions.
absl::StatusOr<VmInstruction> DecodeVmInstruction(
    const VmExecutable& executable, int64_t index);

// The type in the numbers that we use: what TVM 0.20 and before called the
// 8-bit floats means others since.
DLDataType VmDType(DLDataType dtype, VmEra era);

// A library file with the VM's bytecode in it.
struct VmLibrary {
  std::string path;
  std::shared_ptr<const MappedFile> file;  // What the rest borrows.
  VmExecutable executable;
  // The functions that its own code has, as the bytecode calls them; sorted.
  std::vector<std::string> kernels;

  bool HasKernel(std::string_view name) const;
};

// Null if the file is a library without bytecode. Fails as MappedFile::Open,
// or with kInvalidArgument or kDataLoss for what is no library or damaged.
absl::StatusOr<std::unique_ptr<VmLibrary>> OpenVmLibrary(
    const std::string& path);

}  // namespace nodewise
