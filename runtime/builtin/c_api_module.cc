// TVM's C API: modules, functions and errors.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/c_api.h"
#include "nodewise/runtime/module.h"
#include "nodewise/runtime/registry.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/c_report.h"

namespace nodewise {
namespace {

absl::StatusOr<Module*> ModuleOf(TVMModuleHandle handle) {
  auto* const module = dynamic_cast<Module*>(static_cast<Object*>(handle));
  if (module != nullptr) return module;
  return absl::InvalidArgumentError("the module handle is null or no module");
}

absl::Status ImportModule(TVMModuleHandle handle, TVMModuleHandle dependency) {
  NODEWISE_ASSIGN_OR_RETURN(Module* const module, ModuleOf(handle));
  NODEWISE_ASSIGN_OR_RETURN(Module* const imported, ModuleOf(dependency));
  return module->Import(Ref<Module>(imported));
}

absl::StatusOr<PackedFunc> FunctionOf(TVMModuleHandle handle, const char* name,
                                      bool query_imports) {
  NODEWISE_ASSIGN_OR_RETURN(Module* const module, ModuleOf(handle));
  return query_imports ? module->FindFunction(name) : module->GetFunction(name);
}

absl::Status RegisterHandle(const char* name, TVMFunctionHandle handle,
                            bool replace) {
  auto* const function =
      dynamic_cast<FunctionObject*>(static_cast<Object*>(handle));
  if (function == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "function %s: the handle is null or no function", name));
  }
  return RegisterFunction(name, PackedFunc(Ref<FunctionObject>(function)),
                          replace);
}

// What TVM's Python keeps with an error since 0.14: handed back as it came.
void*& PythonError() {
  thread_local void* error = nullptr;
  return error;
}

// The names that TVMFuncListGlobalNames returned last on this thread.
struct NameList {
  std::vector<std::string> names;
  std::vector<const char*> pointers;
};

}  // namespace
}  // namespace nodewise

using nodewise::Report;

void TVMAPISetLastPythonError(void* error) { nodewise::PythonError() = error; }
void* TVMGetLastPythonError(void) { return nodewise::PythonError(); }
void TVMDropLastPythonError(void) { nodewise::PythonError() = nullptr; }
const char* TVMGetLastBacktrace(void) { return ""; }
void TVMThrowLastError(void) {}

int TVMModLoadFromFile(const char* file_name, const char* format,
                       TVMModuleHandle* out) {
  auto module =
      nodewise::LoadModule(file_name, format != nullptr ? format : "");
  if (!module.ok()) return Report(module.status());
  // Handles are Object pointers, whatever the object is.
  *out = static_cast<nodewise::Object*>(module->Leak());
  return 0;
}

int TVMModImport(TVMModuleHandle module, TVMModuleHandle dependency) {
  return Report(nodewise::ImportModule(module, dependency));
}

int TVMModGetFunction(TVMModuleHandle module, const char* name,
                      int query_imports, TVMFunctionHandle* out) {
  auto function = nodewise::FunctionOf(module, name, query_imports != 0);
  if (!function.ok()) return Report(function.status());
  nodewise::Ref<nodewise::FunctionObject> object = function->object();
  *out = static_cast<nodewise::Object*>(object.Leak());
  return 0;
}

int TVMModFree(TVMModuleHandle module) { return TVMObjectFree(module); }

int TVMFuncFree(TVMFunctionHandle function) { return TVMObjectFree(function); }

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code,
                      int num_ret) {
  if (num_ret != 1) {
    return Report(absl::InvalidArgumentError(absl::StrFormat(
        "TVMCFuncSetReturn: got %d values, expected 1", num_ret)));
  }
  auto copy = nodewise::Value::Copy(nodewise::ArgView(*value, *type_code));
  if (!copy.ok()) return Report(copy.status());
  *static_cast<nodewise::Value*>(ret) = *std::move(copy);
  return 0;
}

int TVMCbArgToReturn(TVMValue* value, int* code) {
  auto copy = nodewise::Value::Copy(nodewise::ArgView(*value, *code));
  if (!copy.ok()) return Report(copy.status());
  std::move(*copy).MoveToC(value, code);
  return 0;
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc function, void* resource_handle,
                           TVMPackedCFuncFinalizer finalizer,
                           TVMFunctionHandle* out) {
  nodewise::Ref<nodewise::FunctionObject> object =
      nodewise::PackedFunc::FromCallback(function, resource_handle, finalizer)
          .object();
  *out = static_cast<nodewise::Object*>(object.Leak());
  return 0;
}

int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle function,
                          int override_existing) {
  return Report(
      nodewise::RegisterHandle(name, function, override_existing != 0));
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  nodewise::Ref<nodewise::FunctionObject> object =
      nodewise::FindFunction(name).object();
  *out = static_cast<nodewise::Object*>(object.Leak());
  return 0;
}

int TVMFuncListGlobalNames(int* out_size, const char*** out_array) {
  thread_local nodewise::NameList list;
  list.names = nodewise::FunctionNames();
  list.pointers.clear();
  for (const std::string& name : list.names) {
    list.pointers.push_back(name.c_str());
  }
  *out_size = static_cast<int>(list.pointers.size());
  *out_array = list.pointers.data();
  return 0;
}

int TVMFuncRemoveGlobal(const char* name) {
  return Report(nodewise::RemoveFunction(name));
}
