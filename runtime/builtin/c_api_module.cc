// TVM's C API: modules, functions and errors.

#include <string>
#include <vector>

#include "fmt/format.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/registry.h"
#include "nodewise/module/module.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<Ref<Module>> ModuleOf(TVMModuleHandle handle) {
  const Ref<Object> object = Object::Share(handle, kTVMModuleHandle);
  auto* const module = dynamic_cast<Module*>(object.get());
  if (module != nullptr) return Ref<Module>(module);
  return absl::InvalidArgumentError("the handle is not a module");
}

absl::Status ImportModule(TVMModuleHandle handle, TVMModuleHandle dependency) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleOf(handle));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> imported, ModuleOf(dependency));
  return module->Import(std::move(imported));
}

void* Give(const PackedFunc& function) {
  return Object::Give(function.object());
}

absl::Status LoadFile(const char* file_name, const char* format,
                      TVMModuleHandle* out) {
  NODEWISE_ASSIGN_OR_RETURN(
      Ref<Module> module,
      LoadModule(file_name, format != nullptr ? format : ""));
  *out = Object::Give(module);
  return absl::OkStatus();
}

absl::Status FindInModule(TVMModuleHandle handle, const char* name,
                          bool query_imports, TVMFunctionHandle* out) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleOf(handle));
  NODEWISE_ASSIGN_OR_RETURN(
      const PackedFunc function,
      query_imports ? module->FindFunction(name) : module->GetFunction(name));
  *out = Give(function);
  return absl::OkStatus();
}

absl::Status SetReturn(TVMRetValueHandle ret, ArgView value) {
  NODEWISE_ASSIGN_OR_RETURN(*static_cast<Value*>(ret), Value::Copy(value));
  return absl::OkStatus();
}

absl::Status MakeResult(TVMValue* value, int* code) {
  NODEWISE_ASSIGN_OR_RETURN(Value copy, Value::Copy(ArgView(*value, *code)));
  std::move(copy).MoveToC(value, code);
  return absl::OkStatus();
}

absl::Status RegisterHandle(const char* name, TVMFunctionHandle handle,
                            bool replace) {
  const Ref<Object> object = Object::Share(handle, kTVMPackedFuncHandle);
  auto* const function = dynamic_cast<FunctionObject*>(object.get());
  if (function == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("function {}: the handle is not a function", name));
  }
  return RegisterFunction(name, PackedFunc(Ref<FunctionObject>(function)),
                          replace);
}

// The names that TVMFuncListGlobalNames last returned on this thread.
struct NameList {
  std::vector<std::string> names;
  std::vector<const char*> pointers;
};

}  // namespace
}  // namespace nodewise

using nodewise::CallFromC;

void TVMAPISetLastPythonError(void* error) {
  nodewise::SetLastError(nodewise::PythonError(error));
}
void* TVMGetLastPythonError(void) { return nodewise::LastPythonException(); }
void TVMDropLastPythonError(void) {
  if (nodewise::LastPythonException() != nullptr) nodewise::DropLastError();
}
const char* TVMGetLastBacktrace(void) { return ""; }
void TVMThrowLastError(void) {}

int TVMModLoadFromFile(const char* file_name, const char* format,
                       TVMModuleHandle* out) {
  return CallFromC(__func__, {{"file_name", file_name}, {"out", out}},
                   [&] { return nodewise::LoadFile(file_name, format, out); });
}

int TVMModImport(TVMModuleHandle module, TVMModuleHandle dependency) {
  return CallFromC(__func__, {{"module", module}, {"dependency", dependency}},
                   [&] { return nodewise::ImportModule(module, dependency); });
}

int TVMModGetFunction(TVMModuleHandle module, const char* name,
                      int query_imports, TVMFunctionHandle* out) {
  return CallFromC(
      __func__, {{"module", module}, {"name", name}, {"out", out}}, [&] {
        return nodewise::FindInModule(module, name, query_imports != 0, out);
      });
}

int TVMModFree(TVMModuleHandle module) { return TVMObjectFree(module); }

int TVMFuncFree(TVMFunctionHandle function) { return TVMObjectFree(function); }

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code,
                      int num_ret) {
  return CallFromC(
      __func__, {{"ret", ret}, {"value", value}, {"type_code", type_code}},
      [&] {
        if (num_ret == 1) {
          return nodewise::SetReturn(ret,
                                     nodewise::ArgView(*value, *type_code));
        }
        return absl::InvalidArgumentError(fmt::format(
            "TVMCFuncSetReturn: got {} values, expected 1", num_ret));
      });
}

int TVMCbArgToReturn(TVMValue* value, int* code) {
  return CallFromC(__func__, {{"value", value}, {"code", code}},
                   [&] { return nodewise::MakeResult(value, code); });
}

int TVMFuncCreateFromCFunc(TVMPackedCFunc function, void* resource_handle,
                           TVMPackedCFuncFinalizer finalizer,
                           TVMFunctionHandle* out) {
  return CallFromC(
      __func__,
      {{"function", reinterpret_cast<const void*>(function)}, {"out", out}},
      [&] {
        *out = nodewise::Give(nodewise::PackedFunc::FromCallback(
            function, resource_handle, finalizer));
        return absl::OkStatus();
      });
}

int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle function,
                          int override_existing) {
  return CallFromC(__func__, {{"name", name}, {"function", function}}, [&] {
    return nodewise::RegisterHandle(name, function, override_existing != 0);
  });
}

int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  return CallFromC(__func__, {{"name", name}, {"out", out}}, [&] {
    *out = nodewise::Give(nodewise::FindFunction(name));
    return absl::OkStatus();
  });
}

int TVMFuncListGlobalNames(int* out_size, const char*** out_array) {
  return CallFromC(__func__, {{"out_size", out_size}, {"out_array", out_array}},
                   [&] {
                     thread_local nodewise::NameList list;
                     list.names = nodewise::FunctionNames();
                     list.pointers.clear();
                     for (const std::string& name : list.names) {
                       list.pointers.push_back(name.c_str());
                     }
                     *out_size = static_cast<int>(list.pointers.size());
                     *out_array = list.pointers.data();
                     return absl::OkStatus();
                   });
}

int TVMFuncRemoveGlobal(const char* name) {
  return CallFromC(__func__, {{"name", name}},
                   [&] { return nodewise::RemoveFunction(name); });
}
