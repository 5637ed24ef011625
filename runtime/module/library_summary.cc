#include "nodewise/module/library_summary.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "runtime/module/elf.h"
#include "runtime/module/library_abi.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

// A sign of when a library was made: releases from `first` to `last`, in the
// minor numbers of TVM 0.N.
struct Evidence {
  int first;
  int last;
  const char* text;
};

struct EvidenceList {
  void AddIf(bool there, int first, int last, const char* text) {
    if (there) items.push_back({first, last, text});
  }

  std::vector<Evidence> items;
};

constexpr int kFirstEra = 6;
constexpr int kLastClassicEra = 20;
constexpr int kFirstFfiEra = 21;
constexpr int kLastEra = 27;
constexpr std::string_view kFfiAbi = "TVM-FFI";

// Whether it is defined or wanted does not matter: both are signs of what the
// code was compiled for.
bool HasSymbol(const ElfFile& elf, std::string_view name) {
  return std::ranges::find(elf.symbols, name, &ElfSymbol::name) !=
         elf.symbols.end();
}

// Returns whether the code calls a function, by its name or through a pointer.
// The C target calls by name; the LLVM target through a pointer of that name
// with underscores before it.
bool Calls(const ElfFile& elf, const std::string& name) {
  return HasSymbol(elf, name) || HasSymbol(elf, "__" + name);
}

// TVM 0.8 began to put "tvmgen_" and the module's name before a function's own.
bool AnyFunctionBegins(const LibrarySummary& summary, std::string_view start) {
  return std::ranges::any_of(
      summary.functions,
      [start](const std::string& name) { return name.starts_with(start); });
}

void AddSymbolEvidence(const ElfFile& elf, const LibrarySummary& summary,
                       EvidenceList* found) {
  const bool is_ffi = summary.abi == kFfiAbi;
  const bool has_tvmgen = AnyFunctionBegins(summary, "tvmgen_");
  found->AddIf(has_tvmgen, 8, kLastEra,
               "function names begin with tvmgen_: 0.8 or later");
  found->AddIf(!is_ffi && !has_tvmgen && AnyFunctionBegins(summary, "fused_"),
               kFirstEra, 7,
               "function names begin with fused_: 0.7 or earlier");
  found->AddIf(HasSymbol(elf, "_lookup_linked_param"), 8, 8,
               "parameters are linked in as _lookup_linked_param: 0.8");
  found->AddIf(HasSymbol(elf, "__extendhfsf2") && summary.target == "llvm", 11,
               kLastEra, "half conversions are built in: 0.11 or later");
  found->AddIf(HasSymbol(elf, "__gnu_h2f_ieee"), kFirstEra, 10,
               "half conversions are left to the runtime: 0.10 or earlier");
}

// The names of TVM-FFI's functions changed from release to release, and which
// of them the code calls narrows its release down.
void AddFfiEvidence(const ElfFile& elf, EvidenceList* found) {
  const bool prefixed = AbiOf(elf) == LibraryAbi::kFfiPrefixed;
  found->AddIf(prefixed, 22, kLastEra,
               "functions are called __tvm_ffi_...: 0.22 or later");
  found->AddIf(!prefixed, kFirstFfiEra, 21,
               "TVM-FFI functions with bare names: 0.21");
  const bool in_parts = Calls(elf, "TVMFFIErrorSetRaisedFromCStrParts");
  found->AddIf(in_parts, 24, kLastEra,
               "errors are raised in parts: 0.24 or later");
  found->AddIf(!in_parts && Calls(elf, "TVMFFIErrorSetRaisedFromCStr"),
               kFirstFfiEra, 23,
               "errors are raised in one piece: 0.23 or earlier");
  found->AddIf(Calls(elf, "TVMFFIEnvModLookupFromImports"), 26, kLastEra,
               "functions are looked up in the imports: 0.26 or later");
  found->AddIf(Calls(elf, "TVMBackendGetFuncFromEnv"), kFirstFfiEra, 25,
               "functions are looked up in the environment: 0.25 or earlier");
}

struct KindEvidence {
  std::string_view kind;
  Evidence sign;
};
constexpr KindEvidence kKindEvidence[] = {
    {"GraphRuntimeFactory", {7, 7, "a GraphRuntimeFactory: 0.7"}},
    {"GraphExecutorFactory", {8, 19, "a GraphExecutorFactory: 0.8 to 0.19"}},
    {"metadata", {7, 8, "a metadata module: 0.7 or 0.8"}},
    {"const_loader", {9, kLastEra, "a const_loader module: 0.9 or later"}},
    {"relax.Executable", {14, 19, "a relax.Executable: 0.14 to 0.19"}},
    {"relax.VMExecutable",
     {20, kLastEra, "a relax.VMExecutable: 0.20 or later"}}};

void AddModuleEvidence(const LibrarySummary& summary, EvidenceList* found) {
  bool has_tree = false;
  for (const ModuleSummary& module : summary.modules) {
    has_tree = has_tree || !module.imports.empty();
    for (const auto& [kind, sign] : kKindEvidence) {
      found->AddIf(module.kind == kind, sign.first, sign.last, sign.text);
    }
  }
  found->AddIf(has_tree, 7, kLastEra,
               "the modules have an import tree: 0.7 or later");
}

// Each sign is a range of releases; the library is of one that is in all of
// them. Signs that contradict each other are shown as they are.
void InferTvmReleases(const ElfFile& elf, LibrarySummary* summary) {
  EvidenceList evidence;
  AddSymbolEvidence(elf, *summary, &evidence);
  AddModuleEvidence(*summary, &evidence);
  const bool is_ffi = summary->abi == kFfiAbi;
  if (is_ffi) AddFfiEvidence(elf, &evidence);
  if (evidence.items.empty()) return;
  int first = is_ffi ? kFirstFfiEra : kFirstEra;
  int last = is_ffi ? kLastEra : kLastClassicEra;
  for (const Evidence& sign : evidence.items) {
    first = std::max(first, sign.first);
    last = std::min(last, sign.last);
    summary->era_evidence.emplace_back(sign.text);
  }
  if (first > last) {
    summary->era = "signs of several releases";
  } else if (first == last) {
    summary->era = fmt::format("0.{}", first);
  } else {
    summary->era = fmt::format("0.{} to 0.{}", first, last);
  }
}

// What the linker and the compiler's own library leave in every library.
bool IsCompiledFunction(std::string_view name) {
  constexpr std::string_view kNotOurs[] = {"_init", "_fini", "__extendhfsf2",
                                           "__truncsfhf2", "__truncdfhf2"};
  return std::ranges::find(kNotOurs, name) == std::end(kNotOurs);
}

// The LLVM target calls the runtime through pointers and includes its own half
// conversions; the C target calls the runtime by name. Both call the functions
// that raise errors by name.
std::string TargetOf(const ElfFile& elf, const LibrarySummary& summary) {
  const bool has_pointers = std::ranges::any_of(
      summary.context,
      [](const std::string& name) { return name.starts_with("__TVM"); });
  if (has_pointers || HasSymbol(elf, "__truncsfhf2")) return "llvm";
  for (const std::string& name : summary.runtime_calls) {
    if (!name.starts_with("TVMFFIErrorSetRaised")) return "c";
  }
  return "";
}

// Names are sorted, so that the summaries of two builds can be compared.
void SortSymbols(const ElfFile& elf, LibrarySummary* summary) {
  const LibraryAbi abi = AbiOf(elf);
  for (std::string& name : KernelNames(elf, abi)) {
    if (IsCompiledFunction(name)) summary->functions.push_back(std::move(name));
  }
  for (const ElfSymbol& symbol : elf.symbols) {
    const std::string_view name = symbol.name;
    if (!symbol.defined) {
      if (name.starts_with("TVM")) summary->runtime_calls.emplace_back(name);
    } else if (symbol.kind != ElfSymbol::Kind::kFunction &&
               (name.starts_with("__TVM") ||
                (name.starts_with("__tvm_") && name.ends_with("_ctx")))) {
      summary->context.emplace_back(name);
    }
  }
  std::ranges::sort(summary->context);
  std::ranges::sort(summary->runtime_calls);
  const bool has_blob = HasSymbol(elf, kBlobName);
  const bool is_tvm = has_blob || !summary->context.empty() ||
                      !summary->runtime_calls.empty() ||
                      AnyFunctionBegins(*summary, "tvmgen_") ||
                      AnyFunctionBegins(*summary, "fused_");
  if (abi != LibraryAbi::kPackedC) {
    summary->abi = kFfiAbi;
  } else {
    summary->abi = is_tvm ? "TVM packed C functions" : "none";
  }
  summary->target = TargetOf(elf, *summary);
}

// The data are left out: a summary borrows nothing of the file.
std::vector<ModuleSummary::Tensor> TensorsOf(
    const std::vector<std::pair<std::string_view, TensorRecord>>& records) {
  std::vector<ModuleSummary::Tensor> tensors;
  tensors.reserve(records.size());
  for (const auto& [name, record] : records) {
    tensors.push_back({std::string(name), record.dtype, record.shape});
  }
  return tensors;
}

// Own code has nothing to say beside its kind.
ModuleSummary Summarise(const BlobItem& item) {
  ModuleSummary summary;
  summary.kind = std::string(item.key);
  if (const auto* factory = std::get_if<GraphFactoryItem>(&item.content)) {
    summary.graph_json = std::string(factory->graph_json);
    summary.module_name = std::string(factory->module_name);
    summary.tensors = TensorsOf(factory->params);
  } else if (const auto* held = std::get_if<ConstantsItem>(&item.content)) {
    summary.tensors = TensorsOf(held->constants);
    for (const auto& [symbol, wanted] : held->symbols) {
      summary.functions.emplace_back(symbol);
    }
  } else if (const auto* code = std::get_if<DeviceCodeItem>(&item.content)) {
    summary.format = std::string(code->format);
    summary.code_bytes = code->code.size();
    for (const DeviceFunction& function : code->functions) {
      summary.functions.emplace_back(function.name);
    }
  } else if (const auto* code = std::get_if<BytecodeItem>(&item.content)) {
    summary.code_bytes = code->bytes.size();
  }
  return summary;
}

// Parses what a library carries under the first of the names that it has, and
// sets the place for messages. Without such a symbol it is empty.
template <typename Carried>
absl::StatusOr<Carried> ReadCarried(
    const ElfFile& elf, absl::Span<const std::string_view> names,
    absl::StatusOr<Carried> (*parse)(absl::Span<const uint8_t>, std::string),
    std::string* where) {
  for (const std::string_view name : names) {
    const ElfSymbol* const symbol = FindSymbol(elf, name);
    if (symbol == nullptr) continue;
    *where = fmt::format("{}: {}", elf.where, name);
    NODEWISE_ASSIGN_OR_RETURN(const auto bytes, BytesAt(elf, symbol->value));
    return parse(bytes, *where);
  }
  return Carried();
}

absl::StatusOr<LibraryBin> BinOf(const ElfFile& elf, std::string* where) {
  return ReadCarried(elf, kLibraryBinNames, &ParseLibraryBin, where);
}

absl::StatusOr<ModuleBlob> BlobOf(const ElfFile& elf, std::string* where) {
  return ReadCarried(elf, {kBlobName}, &ParseModuleBlob, where);
}

// A fault here is kept in the summary, as the rest of the library is still
// worth showing. Of what a TVM-FFI library carries only the bytecode has a
// reader here.
absl::Status ReadModules(const ElfFile& elf, LibrarySummary* summary) {
  std::string where;
  NODEWISE_ASSIGN_OR_RETURN(const ModuleBlob blob, BlobOf(elf, &where));
  for (size_t i = 0; i < blob.items.size(); ++i) {
    ModuleSummary module = Summarise(blob.items[i]);
    if (blob.has_import_tree()) module.imports = blob.children[i];
    summary->modules.push_back(std::move(module));
  }
  NODEWISE_ASSIGN_OR_RETURN(const LibraryBin bin, BinOf(elf, &where));
  for (const LibraryBinModule& item : bin.modules) {
    ModuleSummary module;
    module.kind = std::string(item.kind);
    module.imports = item.imports;
    module.code_bytes = item.data.size();
    summary->modules.push_back(std::move(module));
  }
  return absl::OkStatus();
}

// Only the bytecode of a TVM-FFI library is of interest; kernels for devices
// may stand beside it.
absl::StatusOr<bool> FindModern(const ElfFile& elf, LibraryBytecode* found) {
  NODEWISE_ASSIGN_OR_RETURN(const LibraryBin bin, BinOf(elf, &found->where));
  for (const LibraryBinModule& module : bin.modules) {
    if (!IsBytecodeKind(module.kind)) continue;
    found->bytes = module.data;
    found->offset = module.offset;
    return true;
  }
  return false;
}

// Does what FindModern does, for a library of TVM 0.18 to 0.20. Loading the
// library reports what else may be wrong with its blob. What is wrong with a
// blob is not a fault of the bytecode, which may not be there at all.
bool FindClassic(const ElfFile& elf, LibraryBytecode* found) {
  const auto blob = BlobOf(elf, &found->where);
  if (!blob.ok()) return false;
  for (const BlobItem& item : blob->items) {
    const auto* bytecode = std::get_if<BytecodeItem>(&item.content);
    if (bytecode == nullptr) continue;
    found->bytes = bytecode->bytes;
    found->offset = bytecode->offset;
    found->is_ffi = false;
    return true;
  }
  return false;
}

}  // namespace

// Nothing of the library runs: the file may be of another machine, or hostile.
absl::StatusOr<LibrarySummary> SummariseLibrary(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf, ParseElf(file.bytes(), path));
  LibrarySummary summary;
  summary.path = path;
  summary.bytes = file.bytes().size();
  summary.machine = elf.machine;
  summary.bits = elf.bits;
  summary.type = elf.type;
  summary.build_id = elf.build_id;
  for (const std::string_view name : elf.needed) {
    summary.needed.emplace_back(name);
  }
  SortSymbols(elf, &summary);
  summary.blob_status = ReadModules(elf, &summary);
  summary.run_status = CheckKind(elf);
  for (const ModuleSummary& module : summary.modules) {
    summary.has_bytecode = summary.has_bytecode || IsBytecodeKind(module.kind);
  }
  InferTvmReleases(elf, &summary);
  return summary;
}

absl::StatusOr<std::optional<LibraryBytecode>> FindBytecode(
    const std::string& path) {
  LibraryBytecode found;
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  found.file = std::make_shared<const MappedFile>(std::move(file));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf,
                            ParseElf(found.file->bytes(), path));
  NODEWISE_ASSIGN_OR_RETURN(bool has_bytecode, FindModern(elf, &found));
  if (!has_bytecode) has_bytecode = FindClassic(elf, &found);
  if (!has_bytecode) return std::nullopt;
  found.kernels = KernelNames(elf, AbiOf(elf));
  return found;
}

}  // namespace nodewise
