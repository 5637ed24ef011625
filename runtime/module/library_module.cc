#include "runtime/module/library_module.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/blob_modules.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

constexpr char kEntryName[] = "__tvm_main__";
constexpr char kContextName[] = "__tvm_module_ctx";
constexpr char kBlobName[] = "__tvm_dev_mblob";

// Makes the modules of the blob, linked as its import tree says.
absl::StatusOr<std::vector<Ref<Module>>> MakeModules(
    const ModuleBlob& blob, const Ref<Symbols>& symbols) {
  std::vector<Ref<Module>> modules;
  for (const BlobItem& item : blob.items) {
    modules.push_back(MakeBlobModule(item, symbols));
  }
  for (size_t i = 0; i < blob.children.size(); ++i) {
    for (const uint32_t child : blob.children[i]) {
      NODEWISE_RETURN_IF_ERROR(modules[i]->Import(modules[child]));
    }
  }
  return modules;
}

// Gives every library module its neighbours: the modules of the blob that do
// not import it.
void IntroduceNeighbours(const std::vector<Ref<Module>>& modules) {
  for (const Ref<Module>& module : modules) {
    auto* const library = dynamic_cast<LibraryModule*>(module.get());
    if (library == nullptr) continue;
    std::vector<Ref<Module>> neighbours;
    for (const Ref<Module>& other : modules) {
      const std::vector<Module*> tree = other->Tree();
      const bool has_library =
          std::any_of(tree.begin(), tree.end(), [](Module* part) {
            return dynamic_cast<LibraryModule*>(part) != nullptr;
          });
      if (!has_library) neighbours.push_back(other);
    }
    library->SetNeighbours(std::move(neighbours));
  }
}

}  // namespace

LibraryModule::LibraryModule(Ref<Symbols> symbols)
    : symbols_(std::move(symbols)) {
  symbols_->context().Add(this);
}

LibraryModule::~LibraryModule() { symbols_->context().Remove(this); }

// `__tvm_main__` is a string that names the entry function in code of the LLVM
// target, and the entry function itself in code of the C target.
absl::StatusOr<std::string> LibraryModule::ResolveEntryName(
    std::string_view name) const {
  if (name != kEntryName) return std::string(name);
  const absl::Span<const uint8_t> bytes = symbols_->BytesFrom(kEntryName);
  if (bytes.empty()) return std::string(name);
  const void* end = std::memchr(bytes.data(), 0, bytes.size());
  if (end == nullptr) {
    return absl::DataLossError(fmt::format("{}: {} holds no name that ends",
                                           symbols_->where(), kEntryName));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()));
}

absl::StatusOr<PackedFunc> LibraryModule::GetFunction(std::string_view name) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string symbol, ResolveEntryName(name));
  void* const address = symbols_->Function(symbol);
  if (address == nullptr) return PackedFunc();
  if (symbols_->abi() != LibraryAbi::kPackedC) {
    return FfiFunction::Make(reinterpret_cast<TVMFFISafeCallType>(address),
                             nullptr, Ref<RefCounted>(this));
  }
  return PackedFunc::FromAddress(
      reinterpret_cast<TVMBackendPackedCFunc>(address), nullptr,
      Ref<RefCounted>(this));
}

std::vector<std::string> LibraryModule::FunctionNames() const {
  return symbols_->FunctionNames();
}

absl::StatusOr<PackedFunc> LibraryModule::FindForCode(std::string_view name) {
  std::vector<Ref<Module>> modules = imports();
  modules.insert(modules.end(), neighbours_.begin(), neighbours_.end());
  for (const Ref<Module>& module : modules) {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, module->FindFunction(name));
    if (function) return function;
  }
  return PackedFunc();
}

absl::StatusOr<Ref<Module>> BuildModules(Ref<Symbols> symbols,
                                         std::string_view prefix) {
  const std::string blob_name = std::string(prefix) + kBlobName;
  const std::string context_name = std::string(prefix) + kContextName;
  if (void* context = symbols->Variable(context_name); context != nullptr) {
    *static_cast<void**>(context) = &symbols->context();
  }
  auto library = MakeRef<LibraryModule>(symbols);
  if (symbols->Variable(blob_name) == nullptr) return Ref<Module>(library);
  NODEWISE_ASSIGN_OR_RETURN(
      const ModuleBlob blob,
      ParseModuleBlob(symbols->BytesFrom(blob_name),
                      fmt::format("{}: {}", symbols->where(), blob_name)));
  NODEWISE_ASSIGN_OR_RETURN(const auto modules, MakeModules(blob, symbols));
  if (blob.has_import_tree()) {
    if (modules.empty()) return Ref<Module>(library);
    IntroduceNeighbours(modules);
    return modules[0];
  }
  for (const Ref<Module>& module : modules) {
    NODEWISE_RETURN_IF_ERROR(library->Import(module));
  }
  return Ref<Module>(std::move(library));
}

absl::StatusOr<Ref<Module>> LoadModule(const std::string& path,
                                       std::string_view format) {
  const WorkingOn on(path);
  const absl::Status readable = CheckReadable(path);
  if (absl::IsNotFound(readable)) {
    // The loader's words, which hosts look for.
    return absl::NotFoundError(fmt::format(
        "{}: cannot open shared object file: No such file or directory", path));
  }
  NODEWISE_RETURN_IF_ERROR(readable);
  std::string ending(format);
  if (ending.empty()) {
    const size_t dot = path.rfind('.');
    if (dot != std::string::npos) ending = path.substr(dot + 1);
  }
  constexpr std::string_view kShared[] = {"so", "dll", "dylib", "dso"};
  if (std::find(std::begin(kShared), std::end(kShared), ending) ==
      std::end(kShared)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: ends in \"{}\", expected a shared library (.so; for an archive "
        "link its objects first: g++ -shared -o lib.so *.o)",
        path, ending));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Symbols> symbols, OpenSharedLibrary(path));
  return BuildModules(std::move(symbols), "");
}

}  // namespace nodewise
