#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/c_api.h"
#include "nodewise/runtime/registry.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/library_module.h"
#include "runtime/module/symbols.h"

namespace nodewise {
namespace {

struct ContextSymbol {
  std::string name;
  void* address;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The variables that generated code calls through; probed one by one, since a
// library has only those it uses.
std::vector<ContextSymbol>& ContextSymbols() {
  static auto* const symbols = new std::vector<ContextSymbol>{
      {"__TVMFuncCall", Address(&TVMFuncCall)},
      {"__TVMAPISetLastError", Address(&TVMAPISetLastError)},
      {"__TVMBackendGetFuncFromEnv", Address(&TVMBackendGetFuncFromEnv)},
      {"__TVMBackendAllocWorkspace", Address(&TVMBackendAllocWorkspace)},
      {"__TVMBackendFreeWorkspace", Address(&TVMBackendFreeWorkspace)},
      {"__TVMBackendParallelLaunch", Address(&TVMBackendParallelLaunch)},
      {"__TVMBackendParallelBarrier", Address(&TVMBackendParallelBarrier)},
  };
  return *symbols;
}

std::mutex& ContextMutex() {
  static std::mutex mutex;
  return mutex;
}

void* FindContextSymbol(std::string_view name) {
  const std::lock_guard lock(ContextMutex());
  for (const ContextSymbol& symbol : ContextSymbols()) {
    if (symbol.name == name) return symbol.address;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<FunctionObject*> CallContext::Find(std::string_view name) {
  const std::lock_guard lock(mutex_);
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
    return absl::NotFoundError(absl::StrFormat(
        "compiled code calls the function %s, which no module it imports has "
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
}

absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables) {
  std::string unknown;
  for (const std::string& name : variables) {
    if (!name.starts_with("__TVM")) continue;
    void* const address = FindContextSymbol(name);
    if (address == nullptr) unknown += (unknown.empty() ? "" : ", ") + name;
    if (address == nullptr) continue;
    *static_cast<void**>(symbols.Variable(name)) = address;
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrFormat(
      "%s: its code calls runtime functions that are not known here: %s",
      symbols.where(), unknown));
}

void RegisterContextSymbol(std::string_view name, void* address) {
  const std::lock_guard lock(ContextMutex());
  for (ContextSymbol& symbol : ContextSymbols()) {
    if (symbol.name != name) continue;
    symbol.address = address;
    return;
  }
  ContextSymbols().push_back({std::string(name), address});
}

}  // namespace nodewise
