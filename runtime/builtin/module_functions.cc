// The named functions that load and describe modules.

#include "fmt/format.h"
#include "nodewise/graph/executor_module.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/module/module.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {
namespace {

absl::StatusOr<Ref<Module>> ModuleAt(PackedArgs args, int index) {
  return args.ObjectAt<Module>(index, "module");
}

Value ModuleValue(Ref<Module> module) {
  return Value(Ref<Object>(std::move(module)));
}

absl::StatusOr<Value> LoadFromFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(0));
  std::string_view format;
  if (args.size() > 1) {
    NODEWISE_ASSIGN_OR_RETURN(format, args.TextAt(1));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module,
                            LoadModule(std::string(path), format));
  return ModuleValue(std::move(module));
}

absl::StatusOr<Value> LoadSharedLibrary(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module,
                            LoadModule(std::string(path), "so"));
  return ModuleValue(std::move(module));
}

absl::StatusOr<Value> GetSystemLibrary(PackedArgs args) {
  std::string_view prefix;
  if (args.size() > 0) {
    NODEWISE_ASSIGN_OR_RETURN(prefix, args.TextAt(0));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, SystemLibrary(prefix));
  return ModuleValue(std::move(module));
}

absl::StatusOr<Value> ModuleKind(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value(module->kind());
}

absl::StatusOr<Value> ImportCount(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value(static_cast<int64_t>(module->imports().size()));
}

absl::StatusOr<Value> GetImport(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(1));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, arg.AsInt());
  if (index < 0 || index >= static_cast<int64_t>(module->imports().size())) {
    return absl::OutOfRangeError(fmt::format("import {}: the module has {}",
                                             index, module->imports().size()));
  }
  return ModuleValue(module->imports()[static_cast<size_t>(index)]);
}

absl::StatusOr<Value> ClearImports(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  module->ClearImports();
  return Value();
}

// (module, name [, whether to ask its imports too])
absl::StatusOr<PackedFunc> FindInModule(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  int64_t asks_imports = 0;
  if (args.size() > 2) {
    NODEWISE_ASSIGN_OR_RETURN(asks_imports, args.IntAt(2));
  }
  return asks_imports != 0 ? module->FindFunction(name)
                           : module->GetFunction(name);
}

absl::StatusOr<Value> GetFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function, FindInModule(args));
  return Value(Ref<Object>(function.object()));
}

// Hosts that ask with a bool (TVM 0.18 and later) are answered with one.
absl::StatusOr<Value> HasFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function, FindInModule(args));
  const bool has = static_cast<bool>(function);
  if (args.size() > 2 && args.codes()[2] == kTVMArgBool) {
    return Value::Bool(has);
  }
  return Value(has ? 1 : 0);
}

absl::StatusOr<Value> GetProperties(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value(module->properties());
}

// For TVM 0.9 to 0.11, which have no mask of properties.
absl::StatusOr<Value> IsExportable(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value((module->properties() & kModuleIsExportable) != 0 ? 1 : 0);
}

absl::StatusOr<Value> SaveToFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(1));
  return absl::UnimplementedError(fmt::format(
      "{}: a loaded module of kind {} cannot be saved (copy the file that it "
      "was loaded from)",
      path, module->kind()));
}

absl::StatusOr<Value> GetSource(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return absl::UnimplementedError(
      fmt::format("a module of kind {} keeps no source", module->kind()));
}

absl::StatusOr<Value> GetFormat(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value(module->kind() == "library" ? "so" : "");
}

// Returns whether code for a target can be loaded. "llvm" means the compiler,
// which is never part of a runtime: its code is for "cpu".
absl::StatusOr<Value> IsEnabled(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view target, args.TextAt(0));
  if (target == "c") return Value(1);
  const auto type = ParseDeviceType(target);
  return Value(type.ok() && FindDevice(MakeDevice(*type, 0)).ok() ? 1 : 0);
}

// tvm.graph_executor_factory.create(json, module, name, [name, array]...)
absl::StatusOr<Value> CreateFactory(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view json, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> code, ModuleAt(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(2));
  std::vector<NamedTensor> params;
  for (int i = 3; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view key, args.TextAt(i));
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, arg.AsNDArray());
    params.push_back({std::string(key), std::move(tensor)});
  }
  Ref<Module> factory =
      MakeGraphFactory(std::string(json), std::string(name), std::move(params));
  NODEWISE_RETURN_IF_ERROR(factory->Import(std::move(code)));
  return ModuleValue(std::move(factory));
}

constexpr FunctionRow kModuleFunctions[] = {
    {"tvm.graph_executor_factory.create", &CreateFactory},
    {"tvm.graph_runtime_factory.create", &CreateFactory},
    {"runtime.ModuleLoadFromFile", &LoadFromFile},
    {"runtime.module.loadfile_so", &LoadSharedLibrary},
    {"module.loadfile_so", &LoadSharedLibrary},
    {"runtime.SystemLib", &GetSystemLibrary},
    {"module._GetSystemLib", &GetSystemLibrary},
    {"runtime.ModuleGetTypeKey", &ModuleKind},
    {"runtime.ModuleImportsSize", &ImportCount},
    {"runtime.ModuleGetImport", &GetImport},
    {"runtime.ModuleClearImports", &ClearImports},
    {"runtime.ModuleGetFunction", &GetFunction},
    {"runtime.ModuleImplementsFunction", &HasFunction},
    {"runtime.ModuleGetPropertyMask", &GetProperties},
    {"runtime.ModuleIsDSOExportable", &IsExportable},
    {"runtime.ModuleGetSource", &GetSource},
    {"runtime.ModuleGetFormat", &GetFormat},
    {"runtime.ModuleSaveToFile", &SaveToFile},
    {"runtime.RuntimeEnabled", &IsEnabled},
};

}  // namespace

absl::Span<const FunctionRow> ModuleFunctions() { return kModuleFunctions; }

}  // namespace nodewise
