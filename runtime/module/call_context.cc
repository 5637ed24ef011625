#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/ffi_abi.h"
#include "nodewise/func/registry.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/library_module.h"
#include "runtime/module/symbols.h"

namespace nodewise {
namespace {

struct ContextSymbol {
  std::string_view name;
  void* address;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The variables that generated code calls through; probed one by one, since a
// library has only those it uses.
absl::Span<const ContextSymbol> ContextSymbols() {
  static const ContextSymbol symbols[] = {
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
  return symbols;
}

std::mutex& LiveContextsMutex() {
  static std::mutex mutex;
  return mutex;
}

// Never destroyed, since the contexts of static objects may outlive it.
std::set<void*>& LiveContexts() {
  static auto* const contexts = new std::set<void*>;
  return *contexts;
}

void* FindContextSymbol(std::string_view name) {
  for (const ContextSymbol& symbol : ContextSymbols()) {
    if (symbol.name == name) return symbol.address;
  }
  return nullptr;
}

// The code of a TVM-FFI library has one context for all modules over it.
void GiveFfiContext(const Symbols& symbols) {
  symbols.context().UseFfi();
  for (const std::string_view name : kFfiContextNames) {
    void* const variable = symbols.Variable(name);
    if (variable == nullptr) continue;
    *static_cast<void**>(variable) = &symbols.context();
  }
}

}  // namespace

CallContext::CallContext() {
  const std::lock_guard lock(LiveContextsMutex());
  LiveContexts().insert(this);
}

CallContext::~CallContext() {
  const std::lock_guard lock(LiveContextsMutex());
  LiveContexts().erase(this);
}

CallContext* CallContext::FromAddress(void* address) {
  const std::lock_guard lock(LiveContextsMutex());
  return LiveContexts().contains(address) ? static_cast<CallContext*>(address)
                                          : nullptr;
}

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
    return absl::NotFoundError(fmt::format(
        "compiled code calls the function {}, which no module it imports has "
        "and which is not registered",
        name));
  }
  return found_.emplace(name, function.object()).first->second.get();
}

void CallContext::Add(LibraryModule* module) {
  const std::lock_guard lock(mutex_);
  modules_.push_back(module);
}

void CallContext::Remove(LibraryModule* module) {
  const std::lock_guard lock(mutex_);
  modules_.erase(std::remove(modules_.begin(), modules_.end(), module),
                 modules_.end());
}

void CallContext::LeakFunctions() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, function] : found_) function.Leak();
  for (auto& [name, closure] : closures_) closure.Leak();
}

absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables) {
  if (symbols.abi() != LibraryAbi::kPackedC) GiveFfiContext(symbols);
  std::string unknown;
  for (const std::string& name : variables) {
    if (!name.starts_with("__TVM")) continue;
    void* const address = FindContextSymbol(name);
    if (address == nullptr) unknown += (unknown.empty() ? "" : ", ") + name;
    if (address == nullptr) continue;
    *static_cast<void**>(symbols.Variable(name)) = address;
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{}: its code calls runtime functions that are not known here: {}",
      symbols.where(), unknown));
}

}  // namespace nodewise
