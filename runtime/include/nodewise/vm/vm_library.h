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

// Who wrote it: the tags of constants and the codes of types differ.
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

// The register that holds nothing, and the one that holds the machine.
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
  int64_t target = 0;    // The register written, returned or tested.
  int64_t function = 0;  // The number of a call's function.
  std::vector<VmArgument> args;
};

struct VmExecutable {
  std::string where;  // The name for messages.
  VmEra era = VmEra::kFfi;
  std::string_view version;
  std::vector<VmFunction> functions;
  // The constants, by number, that belong in a memory with a name.
  std::vector<std::pair<int64_t, std::string_view>> memory_scopes;
  std::vector<VmConstant> constants;
  // Arrays of i64 at any alignment: where each instruction begins, and the
  // words.
  absl::Span<const uint8_t> offsets;
  absl::Span<const uint8_t> words;

  int64_t num_instructions() const {
    return static_cast<int64_t>(offsets.size() / sizeof(int64_t));
  }
};

// Parses an executable. Fails with kDataLoss, with the byte, for anything that
// is wrong. Functions lie inside the instructions; the instructions themselves
// are checked by DecodeVmInstruction. `base` is the offset of bytes[0], for the
// messages.
absl::StatusOr<VmExecutable> ParseVmExecutable(absl::Span<const uint8_t> bytes,
                                               std::string where, uint64_t base,
                                               VmEra era);

// Returns an instruction whose arguments are of a known kind and lie in the
// tables; registers are not checked. Fails with kDataLoss, without the place in
// the message, if its words say otherwise. REQUIRES: `index` is one of the
// executable's instructions.
absl::StatusOr<VmInstruction> DecodeVmInstruction(
    const VmExecutable& executable, int64_t index);

// Returns the type in our numbers: since TVM 0.21 the numbers that were the
// 8-bit floats' mean other types.
DLDataType VmDType(DLDataType dtype, VmEra era);

// A library file with the VM's bytecode in it.
struct VmLibrary {
  std::string path;
  std::shared_ptr<const MappedFile> file;  // The rest borrows it.
  VmExecutable executable;
  // The names of the functions in its own code, as the bytecode calls them;
  // sorted.
  std::vector<std::string> kernels;

  bool HasKernel(std::string_view name) const;
};

// Opens a library; returns null if it has no bytecode. Fails as
// MappedFile::Open does, or with kInvalidArgument for a file that is not a
// library, or kDataLoss for a damaged one.
absl::StatusOr<std::unique_ptr<VmLibrary>> OpenVmLibrary(
    const std::string& path);

}  // namespace nodewise
