#include <string>
#include <utility>

#include "nodewise/graph/executor_module.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/module/module.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

absl::StatusOr<Ref<Module>> ModuleAt(PackedArgs args, int index) {
  return args.ObjectAt<Module>(index, "module");
}

// `format` is that of the function's name; where it has none, an argument may
// give it.
Result LoadFile(PackedArgs args, std::string_view format) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(0));
  if (args.size() > 1 && format.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(format, args.TextAt(1));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module,
                            LoadModule(std::string(path), format));
  return Value(std::move(module));
}

Result LoadFromFile(PackedArgs args) { return LoadFile(args, ""); }

Result LoadSharedLibrary(PackedArgs args) { return LoadFile(args, "so"); }

// ([prefix]): the functions that compiled code has registered in this very
// program.
Result GetSystemLibrary(PackedArgs args) {
  std::string_view prefix;
  if (args.size() > 0) {
    NODEWISE_ASSIGN_OR_RETURN(prefix, args.TextAt(0));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, SystemLibrary(prefix));
  return Value(std::move(module));
}

// The functions from here to FormatOf() serve hosts through QueryModule(),
// which gives them the module, the host's only argument.

Result KindOf(Module& module) { return Value(module.kind()); }

Result ImportCount(Module& module) {
  return Value(static_cast<int64_t>(module.imports().size()));
}

Result ClearImports(Module& module) {
  module.ClearImports();
  return Value();
}

Result PropertiesOf(Module& module) { return Value(module.properties()); }

// For TVM 0.9 to 0.11, which have no mask of properties.
Result IsExportable(Module& module) {
  return Value((module.properties() & kModuleIsExportable) != 0 ? 1 : 0);
}

Result RefuseSource(Module& module) {
  return Unimplemented("a module of kind {} keeps no source", module.kind());
}

// Only libraries have files of a format; other modules are part of one.
Result FormatOf(Module& module) {
  return Value(module.kind() == "library" ? "so" : "");
}

template <Result (*kAnswer)(Module&)>
Result QueryModule(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return kAnswer(*module);
}

Result GetImport(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t index, args.IntAt(1));
  if (index < 0 || index >= static_cast<int64_t>(module->imports().size())) {
    return OutOfRange("import {}: the module has {}", index,
                      module->imports().size());
  }
  return Value(module->imports()[static_cast<size_t>(index)]);
}

// (module, name [, whether to ask its imports too]) TVM asks the module alone
// unless it is told otherwise.
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

// A missing function is null, which hosts test for.
Result GetFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function, FindInModule(args));
  return Value(function.object());
}

// Hosts that ask with a bool (TVM 0.18 and later) are answered with one.
Result HasFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function, FindInModule(args));
  const bool has = static_cast<bool>(function);
  if (args.size() > 2 && args.codes()[2] == kTVMArgBool) {
    return Value::Bool(has);
  }
  return Value(has ? 1 : 0);
}

Result SaveToFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(1));
  return Unimplemented(
      "{}: a loaded module of kind {} cannot be saved (copy the file that it "
      "was loaded from)",
      path, module->kind());
}

// Returns whether code for a target can be loaded. "llvm" means the compiler,
// which is never part of a runtime: its code is for "cpu".
Result IsEnabled(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view target, args.TextAt(0));
  if (target == "c") return Value(1);
  const auto type = ParseDeviceType(target);
  return Value(type.ok() && FindDevice(MakeDevice(*type, 0)).ok() ? 1 : 0);
}

// tvm.graph_executor_factory.create(json, module, name, [name, array]...)
Result CreateFactory(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view json, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> code, ModuleAt(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(2));
  std::vector<NamedTensor> params;
  for (int i = 3; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view key, args.TextAt(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, args.ArrayAt(i + 1));
    params.push_back({std::string(key), std::move(tensor)});
  }
  Ref<Module> factory =
      MakeGraphFactory(std::string(json), std::string(name), std::move(params));
  NODEWISE_RETURN_IF_ERROR(factory->Import(std::move(code)));
  return Value(std::move(factory));
}

constexpr FunctionRow kModuleFunctions[] = {
    {"tvm.graph_executor_factory.create", &CreateFactory},
    {"tvm.graph_runtime_factory.create", &CreateFactory},
    {"runtime.ModuleLoadFromFile", &LoadFromFile},
    {"runtime.module.loadfile_so", &LoadSharedLibrary},
    {"module.loadfile_so", &LoadSharedLibrary},
    {"runtime.SystemLib", &GetSystemLibrary},
    {"module._GetSystemLib", &GetSystemLibrary},
    {"runtime.ModuleGetTypeKey", &QueryModule<&KindOf>},
    {"runtime.ModuleImportsSize", &QueryModule<&ImportCount>},
    {"runtime.ModuleGetImport", &GetImport},
    {"runtime.ModuleClearImports", &QueryModule<&ClearImports>},
    {"runtime.ModuleGetFunction", &GetFunction},
    {"runtime.ModuleImplementsFunction", &HasFunction},
    {"runtime.ModuleGetPropertyMask", &QueryModule<&PropertiesOf>},
    {"runtime.ModuleIsDSOExportable", &QueryModule<&IsExportable>},
    {"runtime.ModuleGetSource", &QueryModule<&RefuseSource>},
    {"runtime.ModuleGetFormat", &QueryModule<&FormatOf>},
    {"runtime.ModuleSaveToFile", &SaveToFile},
    {"runtime.RuntimeEnabled", &IsEnabled},
};

}  // namespace

absl::Span<const FunctionRow> ModuleFunctions() { return kModuleFunctions; }

}  // namespace nodewise
