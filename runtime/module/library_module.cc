#include "runtime/module/library_module.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/ffi_abi.h"
#include "nodewise/func/registry.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "runtime/module/module_blob.h"

namespace nodewise {

// The compiled functions of a TVM library. It may stand beside others over the
// same code: each load of a file makes new modules, with imports of their own,
// while the process holds one copy of the code.
class LibraryModule final : public Module {
 public:
  explicit LibraryModule(Ref<Symbols> symbols) : symbols_(std::move(symbols)) {
    symbols_->context().Add(this);
  }
  ~LibraryModule() override { symbols_->context().Remove(this); }

  std::string_view kind() const override { return "library"; }
  int properties() const override {
    return kModuleIsSerializable | kModuleIsRunnable;
  }
  std::vector<std::string> FunctionNames() const override {
    return symbols_->FunctionNames();
  }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
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

  // Finds the function that compiled code asks for: in this module's imports,
  // then in its neighbours. TVM 0.8 and later look in the imports of the
  // library, TVM 0.7 in those of the root; this way code of either finds its
  // functions.
  absl::StatusOr<PackedFunc> FindForCode(std::string_view name) const {
    // A copy, since looking up may run code that changes the imports.
    std::vector<Ref<Module>> modules = imports();
    modules.insert(modules.end(), neighbours_.begin(), neighbours_.end());
    for (const Ref<Module>& module : modules) {
      NODEWISE_ASSIGN_OR_RETURN(PackedFunc function,
                                module->FindFunction(name));
      if (function) return function;
    }
    return PackedFunc();
  }

  // REQUIRES: none of them imports this module, directly or not: two that own
  // each other would never be freed.
  void SetNeighbours(std::vector<Ref<Module>> neighbours) {
    neighbours_ = std::move(neighbours);
  }

 private:
  static constexpr char kEntryName[] = "__tvm_main__";

  // `__tvm_main__` is a string that names the entry function in code of the
  // LLVM target, and the entry function itself in code of the C target.
  absl::StatusOr<std::string> ResolveEntryName(std::string_view name) const {
    if (name != kEntryName) return std::string(name);
    const absl::Span<const uint8_t> bytes = symbols_->BytesFrom(kEntryName);
    if (bytes.empty()) return std::string(name);
    const void* end = std::memchr(bytes.data(), 0, bytes.size());
    if (end == nullptr) {
      return DataLoss("{}: {} holds no name that ends", symbols_->where(),
                      kEntryName);
    }
    return std::string(reinterpret_cast<const char*>(bytes.data()));
  }

  Ref<Symbols> symbols_;
  std::vector<Ref<Module>> neighbours_;
};

namespace {

constexpr char kContextName[] = "__tvm_module_ctx";

// A table holds functions of all types by their address.
template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Returns what the runtime writes into a variable that generated code calls
// through, or null. A library has only those variables that it uses.
void* FindContextSymbol(std::string_view wanted) {
  static const std::pair<std::string_view, void*> symbols[] = {
      {"__TVMFuncCall", Address(&TVMFuncCall)},
      {"__TVMAPISetLastError", Address(&TVMAPISetLastError)},
      {"__TVMBackendGetFuncFromEnv", Address(&TVMBackendGetFuncFromEnv)},
      {"__TVMBackendAllocWorkspace", Address(&TVMBackendAllocWorkspace)},
      {"__TVMBackendFreeWorkspace", Address(&TVMBackendFreeWorkspace)},
      {"__TVMBackendParallelLaunch", Address(&TVMBackendParallelLaunch)},
      {"__TVMBackendParallelBarrier", Address(&TVMBackendParallelBarrier)},
      {"__TVMFFIFunctionCall", Address(&TVMFFIFunctionCall)},
      {"__TVMFFIErrorSetRaisedFromCStr",
       Address(&TVMFFIErrorSetRaisedFromCStr)},
      {"__TVMFFIErrorSetRaisedFromCStrParts",
       Address(&TVMFFIErrorSetRaisedFromCStrParts)},
      {"__TVMFFIEnvModLookupFromImports",
       Address(&TVMFFIEnvModLookupFromImports)},
      {"__TVMFFIHandleInitOnce", Address(&TVMFFIHandleInitOnce)},
  };
  for (const auto& [name, address] : symbols) {
    if (name == wanted) return address;
  }
  return nullptr;
}

// The addresses of all contexts, by which they are told from those of TVM's own
// runtime without reading what an unknown address points to. Never destroyed,
// since the contexts of static objects may outlive it.
struct LiveContexts {
  std::mutex mutex;
  std::set<void*> addresses;

  static LiveContexts& Get() {
    static auto* const contexts = new LiveContexts;
    return *contexts;
  }
};

// The code of a TVM-FFI library has one context for all modules over it. TVM
// 0.21 and 0.22 call the variable differently; a library has one of the two.
void GiveFfiContext(const Symbols& symbols) {
  symbols.context().UseFfi();
  for (const std::string_view name : kFfiContextNames) {
    void* const variable = symbols.Variable(name);
    if (variable == nullptr) continue;
    *static_cast<void**>(variable) = &symbols.context();
  }
}

// Constants for the functions of a vendor compiler's module: handed to
// `__init_SYMBOL` before SYMBOL is first used.
class ConstantsModule final : public Module {
 public:
  ConstantsModule(const ConstantsItem& item, std::string kind,
                  const Ref<Symbols>& owner)
      : kind_(std::move(kind)), item_(item), owner_(owner) {}

  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsSerializable; }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    for (const auto& [symbol, wanted] : item_.symbols) {
      if (symbol == name) NODEWISE_RETURN_IF_ERROR(InitOnce(symbol, wanted));
    }
    return PackedFunc();  // The imports have the function itself.
  }

 private:
  absl::Status InitOnce(std::string_view symbol,
                        const std::vector<std::string_view>& wanted) {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(initialised_, symbol);
    if (known != initialised_.end()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc init, FindInit(symbol));
    if (init) NODEWISE_RETURN_IF_ERROR(Initialise(symbol, wanted, init));
    // Marked even if there is nothing to call, so as not to ask again.
    initialised_.push_back(symbol);
    return absl::OkStatus();
  }

  absl::Status Initialise(std::string_view symbol,
                          const std::vector<std::string_view>& wanted,
                          const PackedFunc& init) const {
    std::vector<Value> constants;
    for (const std::string_view name : wanted) {
      NODEWISE_ASSIGN_OR_RETURN(constants.emplace_back(),
                                CopyConstant(symbol, name));
    }
    const Ref<Object> array = ArrayObject::Make(std::move(constants));
    NODEWISE_ASSIGN_OR_RETURN(const Value result, init.Call(array));
    const auto* code = result.Get<int64_t>();
    if (code != nullptr && *code == 0) return absl::OkStatus();
    return Internal("__init_{} did not return 0", symbol);
  }

  absl::StatusOr<PackedFunc> FindInit(std::string_view symbol) {
    const std::string name = fmt::format("__init_{}", symbol);
    for (const Ref<Module>& import : imports()) {
      NODEWISE_ASSIGN_OR_RETURN(PackedFunc init, import->FindFunction(name));
      if (init) return init;
    }
    return PackedFunc();
  }

  absl::StatusOr<NDArray> CopyConstant(std::string_view symbol,
                                       std::string_view name) const {
    for (const auto& [known, record] : item_.constants) {
      if (known != name) continue;
      return NDArray::Borrow(record.ToTensor(), nullptr).CopyToHost();
    }
    return DataLoss(
        "{}: {} wants the constant {}, which the library does not hold",
        owner_->where(), symbol, name);
  }

  std::string kind_;
  ConstantsItem item_;
  Ref<Symbols> owner_;
  std::mutex mutex_;
  std::vector<std::string_view> initialised_;
};

// Code for a device is known by name and refused only when it is called, since
// this build cannot run it from here. Bytecode has no functions here: it runs
// as a graph, and its imports have the kernels.
class DeviceCodeModule final : public Module {
 public:
  DeviceCodeModule(std::string kind, std::vector<std::string> functions)
      : kind_(std::move(kind)), functions_(std::move(functions)) {}

  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsSerializable; }
  std::vector<std::string> FunctionNames() const override { return functions_; }

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    if (std::ranges::find(functions_, name) == functions_.end()) {
      return PackedFunc();
    }
    const std::string message =
        fmt::format("function {} is {} code, and this build has no {} device",
                    name, kind_, kind_);
    return PackedFunc::FromBody([message](PackedArgs) -> absl::StatusOr<Value> {
      return absl::UnavailableError(message);
    });
  }

 private:
  std::string kind_;
  std::vector<std::string> functions_;
};

// The parameters stay in the library's memory, which the views keep loaded.
Ref<Module> MakeFactory(const GraphFactoryItem& item,
                        const Ref<Symbols>& symbols) {
  std::vector<NamedTensor> params;
  const auto owner = std::make_shared<Ref<Symbols>>(symbols);
  for (const auto& [name, record] : item.params) {
    params.push_back(
        {std::string(name), NDArray::Borrow(record.ToTensor(), owner)});
  }
  return MakeGraphFactory(std::string(item.graph_json),
                          std::string(item.module_name), std::move(params));
}

// The module borrows the library's memory and keeps the library loaded.
Ref<Module> MakeBlobModule(const BlobItem& item, const Ref<Symbols>& symbols) {
  std::string kind(item.key);
  if (const auto* factory = std::get_if<GraphFactoryItem>(&item.content)) {
    return MakeFactory(*factory, symbols);
  }
  if (const auto* constants = std::get_if<ConstantsItem>(&item.content)) {
    return MakeRef<ConstantsModule>(*constants, std::move(kind), symbols);
  }
  if (std::holds_alternative<OwnCodeItem>(item.content)) {
    return MakeRef<LibraryModule>(symbols);
  }
  std::vector<std::string> functions;
  if (const auto* code = std::get_if<DeviceCodeItem>(&item.content)) {
    for (const DeviceFunction& function : code->functions) {
      functions.emplace_back(function.name);
    }
  }
  return MakeRef<DeviceCodeModule>(std::move(kind), std::move(functions));
}

// The parser has checked the indices of the import tree, and that no circle of
// imports comes of them.
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
void LinkNeighbours(const std::vector<Ref<Module>>& modules) {
  for (const Ref<Module>& module : modules) {
    auto* const library = dynamic_cast<LibraryModule*>(module.get());
    if (library == nullptr) continue;
    std::vector<Ref<Module>> neighbours;
    for (const Ref<Module>& other : modules) {
      const std::vector<Module*> tree = other->Tree();
      const bool has_library = std::ranges::any_of(tree, [](Module* part) {
        return dynamic_cast<LibraryModule*>(part) != nullptr;
      });
      if (!has_library) neighbours.push_back(other);
    }
    library->SetNeighbours(std::move(neighbours));
  }
}

}  // namespace

CallContext::CallContext() {
  const std::lock_guard lock(LiveContexts::Get().mutex);
  LiveContexts::Get().addresses.insert(this);
}

CallContext::~CallContext() {
  const std::lock_guard lock(LiveContexts::Get().mutex);
  LiveContexts::Get().addresses.erase(this);
}

CallContext* CallContext::FromAddress(void* address) {
  const std::lock_guard lock(LiveContexts::Get().mutex);
  return LiveContexts::Get().addresses.contains(address)
             ? static_cast<CallContext*>(address)
             : nullptr;
}

// Handles are kept, since the code keeps them as well and never gives them
// back.
absl::StatusOr<void*> CallContext::Find(std::string_view name) {
  const std::lock_guard lock(mutex_);
  NODEWISE_ASSIGN_OR_RETURN(FunctionObject* const function,
                            FindFunctionOf(name));
  if (!is_ffi_) return function->handle();
  Ref<FfiClosure>& closure = closures_[std::string(name)];
  if (!closure) closure = MakeRef<FfiClosure>(Ref<FunctionObject>(function));
  return closure->handle();
}

absl::StatusOr<FunctionObject*> CallContext::FindFunctionOf(
    std::string_view name) {
  if (const auto known = found_.find(name); known != found_.end()) {
    return known->second.get();
  }
  PackedFunc function;
  for (LibraryModule* module : modules_) {
    NODEWISE_ASSIGN_OR_RETURN(function, module->FindForCode(name));
    if (function) break;
  }
  if (!function) function = FindFunction(name);
  if (!function) {
    return NotFound(
        "compiled code calls the function {}, which no module it imports has "
        "and which is not registered",
        name);
  }
  return found_.emplace(name, function.object()).first->second.get();
}

void CallContext::Add(LibraryModule* module) {
  const std::lock_guard lock(mutex_);
  modules_.push_back(module);
}

void CallContext::Remove(LibraryModule* module) {
  const std::lock_guard lock(mutex_);
  std::erase(modules_, module);
}

// Called where the code stays loaded although its last module is gone: its
// caches still hold the handles.
void CallContext::LeakFunctions() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, function] : found_) function.Leak();
  for (auto& [name, closure] : closures_) closure.Leak();
}

absl::Status RefuseUnknown(const std::string& where,
                           const std::vector<std::string>& functions) {
  if (functions.empty()) return absl::OkStatus();
  return Unimplemented(
      "{}: its code calls runtime functions that are not known here: {}", where,
      absl::StrJoin(functions, ", "));
}

// All functions that are missing are named in one message.
absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables) {
  if (symbols.abi() != LibraryAbi::kPackedC) GiveFfiContext(symbols);
  std::vector<std::string> unknown;
  for (const std::string& name : variables) {
    if (!name.starts_with("__TVM")) continue;
    void* const address = FindContextSymbol(name);
    if (address != nullptr) {
      *static_cast<void**>(symbols.Variable(name)) = address;
    } else {
      unknown.push_back(name);
    }
  }
  return RefuseUnknown(symbols.where(), unknown);
}

// TVM 0.6 has no import tree, so that all modules of its blob are imports of
// the library itself. Since TVM 0.7 the first module of the tree is the root.
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
    LinkNeighbours(modules);
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
    return NotFound(
        "{}: cannot open shared object file: No such file or directory", path);
  }
  NODEWISE_RETURN_IF_ERROR(readable);
  // Hosts may say the format, else the file's name does, as in TVM.
  std::string ending(format);
  if (ending.empty()) {
    const size_t dot = path.rfind('.');
    if (dot != std::string::npos) ending = path.substr(dot + 1);
  }
  constexpr std::string_view kShared[] = {"so", "dll", "dylib", "dso"};
  if (std::ranges::find(kShared, ending) == std::end(kShared)) {
    return InvalidArgument(
        "{}: ends in \"{}\", expected a shared library (.so; for an archive "
        "link its objects first: g++ -shared -o lib.so *.o)",
        path, ending);
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Symbols> symbols, OpenSharedLibrary(path));
  return BuildModules(std::move(symbols), "");
}

}  // namespace nodewise
