#include "nodewise/vm/vm_library.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Reads the bytes of a Relax VM executable (docs/formats/vm_library.md).

namespace {

// Files that begin with the second number have memory scopes, those with the
// first have none.
constexpr uint64_t kMagic = 0xD225DE2F4214151D;
constexpr uint64_t kMagicWithScopes = 0xD225DE2F4214151E;
constexpr uint64_t kLeastString = sizeof(uint64_t);
// Kind, name, four numbers, parameter count.
constexpr uint64_t kLeastFunction = 4 + 8 + 4 * 8 + 8;
constexpr uint64_t kLeastScope = 8 + kLeastString;
// A tag and a data type.
constexpr uint64_t kLeastConstant = 4 + 4;
constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;

// Kinds beyond these three would be read as numbers that mean something else.
absl::StatusOr<VmFunction> ReadFunction(ByteReader* reader) {
  VmFunction function;
  const size_t kind_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const int32_t kind,
                            reader->Read<int32_t>("function kind"));
  if (kind < 0 || kind > 2) {
    return reader->ErrorAt(
        kind_at, fmt::format("function kind is {}, expected 0, 1 or 2", kind));
  }
  function.kind = static_cast<VmFunction::Kind>(kind);
  NODEWISE_ASSIGN_OR_RETURN(function.name, reader->String("function name"));
  for (int64_t* field : {&function.first, &function.end, &function.num_args,
                         &function.num_registers}) {
    NODEWISE_ASSIGN_OR_RETURN(*field, reader->Read<int64_t>("function"));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      function.params,
      reader->List<std::string_view>("parameter name count", kLeastString, [&] {
        return reader->String("parameter name");
      }));
  return function;
}

// In a function that is a kernel, the numbers mean nothing (TVM writes -2
// arguments). Registers are kept in a map, so that a large count costs nothing;
// it only has to leave the two special ones alone.
absl::Status CheckFunction(const ByteReader& reader, size_t offset,
                           const VmFunction& function) {
  if (function.kind == VmFunction::Kind::kPacked) return absl::OkStatus();
  const auto error = [&](std::string_view message) {
    return reader.ErrorAt(
        offset,
        fmt::format("function {} {}", Shortened(function.name), message));
  };
  const auto names = static_cast<int64_t>(function.params.size());
  if (function.num_args < 0 || (names != 0 && names != function.num_args)) {
    return error(
        fmt::format("has {} arguments, expected one for each of its {} names",
                    function.num_args, names));
  }
  if (function.kind == VmFunction::Kind::kCompiled) return absl::OkStatus();
  if (function.num_registers < function.num_args ||
      function.num_registers > kVmVoidRegister) {
    return error(fmt::format(
        "has {} registers, expected at least one for each of its {} arguments",
        function.num_registers, function.num_args));
  }
  return absl::OkStatus();
}

// The offsets are for messages about what is known only later.
absl::Status ReadFunctions(ByteReader* reader, VmExecutable* executable,
                           std::vector<size_t>* offsets) {
  const auto read = [&]() -> absl::StatusOr<VmFunction> {
    offsets->push_back(reader->offset());
    NODEWISE_ASSIGN_OR_RETURN(VmFunction function, ReadFunction(reader));
    NODEWISE_RETURN_IF_ERROR(CheckFunction(*reader, offsets->back(), function));
    return function;
  };
  NODEWISE_ASSIGN_OR_RETURN(
      executable->functions,
      reader->List<VmFunction>("function count", kLeastFunction, read));
  return absl::OkStatus();
}

absl::Status ReadMemoryScopes(ByteReader* reader, VmExecutable* executable) {
  using Scope = std::pair<int64_t, std::string_view>;
  const auto read = [&]() -> absl::StatusOr<Scope> {
    NODEWISE_ASSIGN_OR_RETURN(
        const int64_t constant,
        reader->Read<int64_t>("constant of a memory scope"));
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view scope,
                              reader->String("memory scope"));
    return Scope(constant, scope);
  };
  auto& scopes = executable->memory_scopes;
  NODEWISE_ASSIGN_OR_RETURN(
      scopes, reader->List<Scope>("memory scope count", kLeastScope, read));
  // The reader of instructions searches them by constant.
  std::ranges::sort(scopes);
  return absl::OkStatus();
}

absl::StatusOr<VmShape> ReadShape(ByteReader* reader) {
  NODEWISE_ASSIGN_OR_RETURN(
      auto dims, reader->List<int64_t>("shape rank", sizeof(int64_t), [&] {
        return reader->Read<int64_t>("shape");
      }));
  return VmShape{std::move(dims)};
}

// The kinds of constants, which each era numbers in its own way.
enum class ConstantKind { kTensor, kShape, kText, kInt, kFloat, kDType, kNone };

// TVM-FFI numbered its objects anew before 0.22: a shape is 69 or 71, a tensor
// 70 or 72. A tensor's own magic number tells which.
ConstantKind KindOf(int32_t tag, VmEra era, uint64_t next_word) {
  if (era == VmEra::kClassic) {
    constexpr ConstantKind kKinds[] = {
        ConstantKind::kTensor, ConstantKind::kDType, ConstantKind::kShape,
        ConstantKind::kText,   ConstantKind::kInt,   ConstantKind::kFloat};
    return tag >= 0 && tag < 6 ? kKinds[tag] : ConstantKind::kNone;
  }
  switch (tag) {
    case 1:
      return ConstantKind::kInt;
    case 3:
      return ConstantKind::kFloat;
    case 5:
      return ConstantKind::kDType;
    case 65:
      return ConstantKind::kText;
    case 69:
    case 70:
    case 71:
    case 72:
      return next_word == kTensorMagic ? ConstantKind::kTensor
                                       : ConstantKind::kShape;
    default:
      return ConstantKind::kNone;
  }
}

// A copy of the reader looks ahead, and the reader itself stays where it is.
absl::StatusOr<VmConstant> ReadConstant(ByteReader* reader, VmEra era) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const int32_t tag,
                            reader->Read<int32_t>("constant kind"));
  uint64_t next = 0;
  if (tag > 65) next = ByteReader(*reader).Read<uint64_t>("").value_or(0);
  switch (KindOf(tag, era, next)) {
    case ConstantKind::kTensor:
      return ReadTensorRecord(reader);
    case ConstantKind::kShape:
      return ReadShape(reader);
    case ConstantKind::kText:
      return reader->String("text constant");
    case ConstantKind::kInt:
      return reader->Read<int64_t>("int constant");
    case ConstantKind::kFloat:
      return reader->Read<double>("float constant");
    case ConstantKind::kDType:
      return reader->Read<DLDataType>("type constant");
    case ConstantKind::kNone:
      break;
  }
  return reader->ErrorAt(start,
                         fmt::format("constant kind is {}, expected a tensor, "
                                     "shape, text, int, float or type",
                                     tag));
}

// A message about a constant names its number, by which instructions refer to
// it.
absl::Status ReadConstants(ByteReader* reader, VmExecutable* executable) {
  size_t number = 0;
  const auto read = [&]() -> absl::StatusOr<VmConstant> {
    auto constant = ReadConstant(reader, executable->era);
    if (constant.ok()) ++number;
    if (constant.ok()) return constant;
    return absl::Status(
        constant.status().code(),
        fmt::format("{} (constant {})", MessageOf(constant.status()), number));
  };
  NODEWISE_ASSIGN_OR_RETURN(
      executable->constants,
      reader->List<VmConstant>("constant count", kLeastConstant, read));
  return absl::OkStatus();
}

// The words are not copied, since they may be at any alignment and most are
// read once.
absl::StatusOr<absl::Span<const uint8_t>> ReadWords(ByteReader* reader,
                                                    const char* what) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count(what, sizeof(int64_t)));
  return reader->Bytes(what, count * sizeof(int64_t));
}

// Functions never share instructions, so their lengths add up. A small file
// could otherwise name the same instructions a thousand times over.
absl::Status CheckRanges(const ByteReader& reader,
                         const std::vector<size_t>& offsets,
                         const VmExecutable& executable) {
  int64_t left = executable.num_instructions();
  for (size_t f = 0; f < executable.functions.size(); ++f) {
    const VmFunction& function = executable.functions[f];
    if (function.kind != VmFunction::Kind::kBytecode) continue;
    if (function.first >= 0 && function.first <= function.end &&
        function.end <= executable.num_instructions() &&
        function.end - function.first <= left) {
      left -= function.end - function.first;
      continue;
    }
    return reader.ErrorAt(
        offsets[f], fmt::format("function {} has instructions [{}, {}), "
                                "expected a part of its own of the {}",
                                Shortened(function.name), function.first,
                                function.end, executable.num_instructions()));
  }
  return absl::OkStatus();
}

// The words lie at any alignment, so they are copied out.
int64_t WordAt(absl::Span<const uint8_t> words, int64_t index) {
  int64_t word;
  std::memcpy(&word, words.data() + static_cast<size_t>(index) * sizeof(word),
              sizeof(word));
  return word;
}

// Reads the words of one instruction, never those of the next: if instructions
// could share words, a small file could take endless time to read.
class WordReader {
 public:
  WordReader(const VmExecutable& executable, int64_t index)
      : words_(executable.words), at_(WordAt(executable.offsets, index)) {
    const auto count = static_cast<int64_t>(words_.size() / sizeof(int64_t));
    end_ = index + 1 < executable.num_instructions()
               ? std::min(count, WordAt(executable.offsets, index + 1))
               : count;
  }

  absl::StatusOr<int64_t> Next() {
    if (at_ >= 0 && at_ < end_) return WordAt(words_, at_++);
    return DataLoss("it goes on at word {}, expected one before word {}", at_,
                    end_);
  }
  int64_t left() const { return end_ - at_; }

 private:
  absl::Span<const uint8_t> words_;
  int64_t at_;
  int64_t end_;
};

// Splits a word: a kind in the upper 8 bits, a signed value in the lower 56.
// Constants and functions are looked up without another check from here on.
absl::StatusOr<VmArgument> ArgumentOf(int64_t word, size_t place,
                                      const VmExecutable& executable) {
  const auto bits = static_cast<uint64_t>(word);
  const uint64_t kind = bits >> 56;
  const int64_t value = static_cast<int64_t>(bits << 8) >> 8;
  if (kind > 3) {
    return DataLoss("argument {} is of kind {}, expected 0 to 3", place, kind);
  }
  const VmArgument argument{static_cast<VmArgument::Kind>(kind), value};
  const bool is_constant = argument.kind == VmArgument::Kind::kConstant;
  if (!is_constant && argument.kind != VmArgument::Kind::kFunction) {
    return argument;
  }
  const size_t count =
      is_constant ? executable.constants.size() : executable.functions.size();
  if (value >= 0 && static_cast<uint64_t>(value) < count) return argument;
  return DataLoss("argument {} is {} {}, expected one of the {}", place,
                  is_constant ? "constant" : "function", value, count);
}

// Each argument is a word, so that the count cannot be larger than what is
// left.
absl::Status ReadCall(WordReader* reader, const VmExecutable& executable,
                      VmInstruction* instruction) {
  NODEWISE_ASSIGN_OR_RETURN(instruction->target, reader->Next());
  NODEWISE_ASSIGN_OR_RETURN(instruction->function, reader->Next());
  const size_t functions = executable.functions.size();
  if (instruction->function < 0 ||
      static_cast<uint64_t>(instruction->function) >= functions) {
    return DataLoss("it calls function {}, expected one of the {}",
                    instruction->function, functions);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, reader->Next());
  if (count < 0 || count > reader->left()) {
    return DataLoss("it has {} arguments, but {} words are left", count,
                    reader->left());
  }
  instruction->args.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t word, reader->Next());
    NODEWISE_ASSIGN_OR_RETURN(
        instruction->args.emplace_back(),
        ArgumentOf(word, static_cast<size_t>(i), executable));
  }
  return absl::OkStatus();
}

}  // namespace

// The parts follow each other without an index: a fault in one leaves the place
// of the next unknown, and ends the reading.
absl::StatusOr<VmExecutable> ParseVmExecutable(absl::Span<const uint8_t> bytes,
                                               std::string where, uint64_t base,
                                               VmEra era) {
  ByteReader reader(bytes, where, base);
  VmExecutable executable;
  executable.where = std::move(where);
  executable.era = era;
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t magic,
                            reader.Read<uint64_t>("bytecode magic"));
  if (magic != kMagic && magic != kMagicWithScopes) {
    return reader.ErrorAt(
        0, fmt::format("bytecode magic is {:016x}, expected {:016x} or {:016x}",
                       magic, kMagic, kMagicWithScopes));
  }
  NODEWISE_ASSIGN_OR_RETURN(executable.version,
                            reader.String("bytecode version"));
  std::vector<size_t> function_offsets;
  NODEWISE_RETURN_IF_ERROR(
      ReadFunctions(&reader, &executable, &function_offsets));
  if (magic == kMagicWithScopes) {
    NODEWISE_RETURN_IF_ERROR(ReadMemoryScopes(&reader, &executable));
  }
  NODEWISE_RETURN_IF_ERROR(ReadConstants(&reader, &executable));
  NODEWISE_ASSIGN_OR_RETURN(executable.offsets,
                            ReadWords(&reader, "instruction count"));
  NODEWISE_ASSIGN_OR_RETURN(executable.words,
                            ReadWords(&reader, "instruction word count"));
  NODEWISE_RETURN_IF_ERROR(CheckRanges(reader, function_offsets, executable));
  if (reader.left() == 0) return executable;
  return reader.ErrorAt(
      reader.offset(),
      fmt::format("found {} bytes, expected the end", reader.left()));
}

// Instructions are decoded one by one when they are followed, since a library
// may hold many functions of which one is asked for.
absl::StatusOr<VmInstruction> DecodeVmInstruction(
    const VmExecutable& executable, int64_t index) {
  WordReader reader(executable, index);
  VmInstruction instruction;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t opcode, reader.Next());
  if (opcode < 1 || opcode > 4) {
    return DataLoss("opcode is {}, expected 1 to 4", opcode);
  }
  instruction.opcode = static_cast<VmInstruction::Opcode>(opcode);
  if (instruction.opcode == VmInstruction::Opcode::kCall) {
    NODEWISE_RETURN_IF_ERROR(ReadCall(&reader, executable, &instruction));
    return instruction;
  }
  NODEWISE_ASSIGN_OR_RETURN(instruction.target, reader.Next());
  return instruction;
}

// Before TVM-FFI, 6 and 7 were TVM's own numbers for two floats of 8 bits.
DLDataType VmDType(DLDataType dtype, VmEra era) {
  if (era == VmEra::kFfi || dtype.bits != 8) return dtype;
  if (dtype.code == 6) dtype.code = kDTypeE4M3;
  if (dtype.code == 7) dtype.code = kDTypeE5M2;
  return dtype;
}

bool VmLibrary::HasKernel(std::string_view name) const {
  return std::ranges::binary_search(kernels, name);
}

// The library stays mapped, not loaded: nothing of it runs.
absl::StatusOr<std::unique_ptr<VmLibrary>> OpenVmLibrary(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(auto found, FindBytecode(path));
  if (!found.has_value()) return nullptr;
  auto library = std::make_unique<VmLibrary>();
  library->path = path;
  library->file = std::move(found->file);
  NODEWISE_ASSIGN_OR_RETURN(
      library->executable,
      ParseVmExecutable(found->bytes, std::move(found->where), found->offset,
                        found->is_ffi ? VmEra::kFfi : VmEra::kClassic));
  library->kernels = std::move(found->kernels);
  return library;
}

}  // namespace nodewise
