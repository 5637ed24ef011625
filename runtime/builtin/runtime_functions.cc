// The named functions that make and load things.

#include "absl/strings/str_format.h"
#include "nodewise/runtime/containers.h"
#include "nodewise/runtime/executor_module.h"
#include "nodewise/runtime/factory_module.h"
#include "nodewise/runtime/module.h"
#include "nodewise/runtime/params.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {
namespace {

absl::StatusOr<std::string_view> TextAt(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  return arg.AsString();
}

absl::StatusOr<Ref<Module>> ModuleAt(PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  return arg.AsObject<Module>("module");
}

Value ModuleValue(Ref<Module> module) {
  return Value(Ref<Object>(std::move(module)));
}

absl::StatusOr<Value> LoadFromFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, TextAt(args, 0));
  std::string_view format;
  if (args.size() > 1) {
    NODEWISE_ASSIGN_OR_RETURN(format, TextAt(args, 1));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module,
                            LoadModule(std::string(path), format));
  return ModuleValue(std::move(module));
}

absl::StatusOr<Value> LoadSharedLibrary(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, TextAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module,
                            LoadModule(std::string(path), "so"));
  return ModuleValue(std::move(module));
}

absl::StatusOr<Value> GetSystemLibrary(PackedArgs args) {
  std::string_view prefix;
  if (args.size() > 0) {
    NODEWISE_ASSIGN_OR_RETURN(prefix, TextAt(args, 0));
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
    return absl::OutOfRangeError(absl::StrFormat(
        "import %d: the module has %d", index, module->imports().size()));
  }
  return ModuleValue(module->imports()[static_cast<size_t>(index)]);
}

absl::StatusOr<Value> ClearImports(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  module->ClearImports();
  return Value();
}

absl::StatusOr<Value> HasFunction(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, TextAt(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                            module->FindFunction(name));
  return Value(function ? 1 : 0);
}

absl::StatusOr<Value> GetSource(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return absl::UnimplementedError(
      absl::StrFormat("a module of kind %s keeps no source", module->kind()));
}

absl::StatusOr<Value> GetFormat(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return Value(module->kind() == "library" ? "so" : "");
}

absl::StatusOr<Value> IsEnabled(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view target, TextAt(args, 0));
  if (target == "c" || target.starts_with("llvm")) return Value(1);
  const auto type = ParseDeviceType(target);
  return Value(type.ok() && FindDevice(MakeDevice(*type, 0)).ok() ? 1 : 0);
}

// tvm.graph_executor_factory.create(json, module, name, [name, array]...)
absl::StatusOr<Value> CreateFactory(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view json, TextAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> code, ModuleAt(args, 1));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, TextAt(args, 2));
  std::vector<NamedTensor> params;
  for (int i = 3; i < args.size(); i += 2) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view key, TextAt(args, i));
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i + 1));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, arg.AsNDArray());
    params.push_back({std::string(key), std::move(tensor)});
  }
  Ref<Module> factory =
      MakeGraphFactory(std::string(json), std::string(name), std::move(params));
  NODEWISE_RETURN_IF_ERROR(factory->Import(std::move(code)));
  return ModuleValue(std::move(factory));
}

absl::StatusOr<std::vector<NamedTensor>> TensorsOf(const ArgView& arg) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            arg.AsObject<MapObject>("a map of arrays"));
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : map->items) {
    const NDArray* array = value.Get<NDArray>();
    if (array == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrFormat("parameter %s: is no array", name));
    }
    tensors.push_back({name, *array});
  }
  return tensors;
}

absl::StatusOr<Value> SaveParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, TensorsOf(arg));
  NODEWISE_ASSIGN_OR_RETURN(std::string bytes, SerializeParams(tensors));
  return Value(Value::Bytes{std::move(bytes)});
}

absl::StatusOr<Value> SaveParamsToFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, TensorsOf(arg));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, TextAt(args, 1));
  NODEWISE_RETURN_IF_ERROR(WriteParams(std::string(path), tensors));
  return Value();
}

// Copies, since the arrays go to the host and must be aligned and its own.
absl::StatusOr<Value> ParamsMap(const Params& params) {
  auto map = MakeRef<MapObject>();
  for (const NamedTensor& param : params.tensors) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, param.tensor.CopyToHost());
    map->Set(param.name, std::move(copy));
  }
  return Value(Ref<Object>(std::move(map)));
}

absl::StatusOr<Value> LoadParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view bytes, TextAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(
      const Params params,
      ParseParams(
          {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
          "params", nullptr));
  return ParamsMap(params);
}

absl::StatusOr<Value> LoadParamsFromFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, TextAt(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(const Params params, OpenParams(std::string(path)));
  return ParamsMap(params);
}

absl::StatusOr<Value> GetNumThreads(PackedArgs) { return Value(NumThreads()); }

// runtime.config_threadpool(mode, threads, cores): we bind no thread to a
// core, so only the number counts.
absl::StatusOr<Value> ConfigThreadPool(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int threads, args.SmallIntAt(1));
  SetNumThreads(threads);
  return Value();
}

constexpr FunctionRow kRows[] = {
    {"tvm.graph_executor.create", &CreateGraphExecutor},
    {"tvm.graph_runtime.create", &CreateGraphExecutor},
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
    {"runtime.ModuleImplementsFunction", &HasFunction},
    {"runtime.ModuleGetSource", &GetSource},
    {"runtime.ModuleGetFormat", &GetFormat},
    {"runtime.RuntimeEnabled", &IsEnabled},
    {"runtime.SaveParams", &SaveParams},
    {"runtime.SaveParamsToFile", &SaveParamsToFile},
    {"runtime.LoadParams", &LoadParams},
    {"runtime.LoadParamsFromFile", &LoadParamsFromFile},
    {"tvm.relay._save_param_dict", &SaveParams},
    {"tvm.relay._load_param_dict", &LoadParams},
    {"runtime.NumThreads", &GetNumThreads},
    {"runtime.config_threadpool", &ConfigThreadPool},
};

}  // namespace

absl::Span<const FunctionRow> RuntimeFunctions() { return kRows; }

}  // namespace nodewise
