#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <string>
#include <utility>

#include "nodewise/func/time_repeats.h"
#include "nodewise/graph/executor_module.h"
#include "nodewise/module/factory_module.h"
#include "nodewise/module/module.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

// A function and how to time it.
struct Evaluator {
  PackedFunc function;
  PackedFunc before_repeat;  // May be null.
  DLDevice device;
  RepeatOptions options;
  int cache_flush_bytes = 0;
};

absl::StatusOr<PackedFunc> RegisteredFunction(std::string_view name) {
  PackedFunc function = FindFunction(name);
  if (function) return function;
  return NotFound("no function {} is registered", name);
}

// (module or null, name...): a function of the module or its imports, or a
// registered one.
absl::StatusOr<PackedFunc> FunctionToTime(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView module_arg, args.At(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, args.TextAt(1));
  if (module_arg.IsNull()) return RegisteredFunction(name);
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module,
                            module_arg.AsObject<Module>("module"));
  NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, module->FindFunction(name));
  if (function) return function;
  return NotFound("a module of kind {} has no function {}", module->kind(),
                  name);
}

// Takes module, name, device type and number; the timing arguments, 3 until TVM
// 0.8, 5 in 0.9, 6 since 0.10; cache_flush_bytes since 0.14; the name of a
// function to call before each repeat, "" for none.
absl::StatusOr<Evaluator> TakeEvaluator(PackedArgs args) {
  constexpr int kFirst = 4;
  const int count = args.size();
  if (count != 8 && count != 10 && count != 11 && count != 12) {
    return InvalidArgument(
        "RPCTimeEvaluator: got {} arguments, expected 12 as in TVM 0.14, 11 as "
        "in 0.10, 10 as in 0.9 or 8 as in 0.8",
        count);
  }
  Evaluator evaluator;
  NODEWISE_ASSIGN_OR_RETURN(evaluator.function, FunctionToTime(args));
  NODEWISE_ASSIGN_OR_RETURN(evaluator.device, args.DeviceAt(2));
  NODEWISE_RETURN_IF_ERROR(FindDevice(evaluator.device).status());
  const int num_options = std::min(count - kFirst - 1, 6);
  NODEWISE_ASSIGN_OR_RETURN(
      evaluator.options,
      TakeRepeatOptions(args.From(kFirst).First(num_options)));
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(evaluator.options));
  if (count == 12) {
    NODEWISE_ASSIGN_OR_RETURN(evaluator.cache_flush_bytes,
                              args.SmallIntAt(count - 2));
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view preprocess,
                            args.TextAt(count - 1));
  if (!preprocess.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(evaluator.before_repeat,
                              RegisteredFunction(preprocess));
  }
  return evaluator;
}

// Times as TVM does: the device is idle before the clock starts and when it
// stops, and flushing is not part of the time.
Result Evaluate(const Evaluator& evaluator, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(Device* const device, FindDevice(evaluator.device));
  // Copying one over the other evicts what caches hold. Undefined if there is
  // nothing to flush.
  NDArray from, to;
  if (evaluator.cache_flush_bytes > 0) {
    const int64_t shape[] = {evaluator.cache_flush_bytes};
    constexpr DLDataType kByte{kDLUInt, 8, 1};
    NODEWISE_ASSIGN_OR_RETURN(from,
                              NDArray::Empty(shape, kByte, evaluator.device));
    NODEWISE_ASSIGN_OR_RETURN(to,
                              NDArray::Empty(shape, kByte, evaluator.device));
  }
  const int id = evaluator.device.device_id;
  const auto time_calls = [&](int64_t number) -> absl::StatusOr<int64_t> {
    if (from.defined()) NODEWISE_RETURN_IF_ERROR(CopyTensor(*from, *to));
    NODEWISE_RETURN_IF_ERROR(device->Synchronize(id));
    const int64_t start = ClockNanoseconds();
    for (int64_t i = 0; i < number; ++i) {
      NODEWISE_RETURN_IF_ERROR(evaluator.function.CallPacked(args).status());
    }
    NODEWISE_RETURN_IF_ERROR(device->Synchronize(id));
    return ClockNanoseconds() - start;
  };
  const auto before_repeat = [&] {
    if (!evaluator.before_repeat) return absl::OkStatus();
    return evaluator.before_repeat.CallPacked(args).status();
  };
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<double> seconds,
      TimeRepeats(evaluator.options, time_calls, before_repeat));
  return SecondsAsBytes(seconds);
}

// Despite its name, RPCTimeEvaluator also times functions of this process;
// those elsewhere need an RPC server, which this runtime does not have.
Result MakeTimeEvaluator(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluator evaluator, TakeEvaluator(args));
  return Value(
      PackedFunc::FromBody([evaluator = std::move(evaluator)](PackedArgs call) {
        return Evaluate(evaluator, call);
      }).object());
}

// Writes a tensor's bytes back to memory and out of all caches. One instruction
// for each line of the cache, which has 64 bytes on the processors of both
// kinds; on others this does nothing.
void FlushFromCaches(const DLTensor& tensor, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* data = static_cast<const char*>(DataOf(tensor));
  for (size_t i = 0; i < bytes; i += kLine) {
#if defined(__x86_64__)
    _mm_clflush(data + i);
#elif defined(__aarch64__)
    asm volatile("dc civac, %0" : : "r"(data + i) : "memory");
#endif
  }
#if defined(__x86_64__)
  // The last byte may be in another line.
  if (bytes > 0) _mm_clflush(data + bytes - 1);
  _mm_mfence();
#elif defined(__aarch64__)
  if (bytes > 0) asm volatile("dc civac, %0" : : "r"(data + bytes - 1));
  asm volatile("dsb ish" : : : "memory");
#endif
}

// (tensor...): all but the first. Hosts have it called before each repeat, to
// time a kernel whose first argument alone may be in a cache.
Result FlushNonFirst(PackedArgs args) {
  for (int i = 1; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, args.TensorAt(i));
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(*tensor));
    if (DeviceTypeOf(tensor->device) == kDLCPU && IsCompact(*tensor)) {
      FlushFromCaches(*tensor, bytes);
    }
  }
  return Value();
}

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

// (path [, format])
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

// Questions of a host that need no more than the module.

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

// (module)
template <Result (*kAnswer)(Module&)>
Result AskModule(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<Module> module, ModuleAt(args, 0));
  return kAnswer(*module);
}

// (module, index)
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

constexpr FunctionRow kTimeFunctions[] = {
    {"runtime.RPCTimeEvaluator", &MakeTimeEvaluator},
    {"cache_flush_cpu_non_first_arg", &FlushNonFirst},
};

constexpr FunctionRow kModuleFunctions[] = {
    {"tvm.graph_executor_factory.create", &CreateFactory},
    {"tvm.graph_runtime_factory.create", &CreateFactory},
    {"runtime.ModuleLoadFromFile", &LoadFromFile},
    {"runtime.module.loadfile_so", &LoadSharedLibrary},
    {"module.loadfile_so", &LoadSharedLibrary},
    {"runtime.SystemLib", &GetSystemLibrary},
    {"module._GetSystemLib", &GetSystemLibrary},
    {"runtime.ModuleGetTypeKey", &AskModule<&KindOf>},
    {"runtime.ModuleImportsSize", &AskModule<&ImportCount>},
    {"runtime.ModuleGetImport", &GetImport},
    {"runtime.ModuleClearImports", &AskModule<&ClearImports>},
    {"runtime.ModuleGetFunction", &GetFunction},
    {"runtime.ModuleImplementsFunction", &HasFunction},
    {"runtime.ModuleGetPropertyMask", &AskModule<&PropertiesOf>},
    {"runtime.ModuleIsDSOExportable", &AskModule<&IsExportable>},
    {"runtime.ModuleGetSource", &AskModule<&RefuseSource>},
    {"runtime.ModuleGetFormat", &AskModule<&FormatOf>},
    {"runtime.ModuleSaveToFile", &SaveToFile},
    {"runtime.RuntimeEnabled", &IsEnabled},
};

}  // namespace

absl::Span<const FunctionRow> TimingFunctions() { return kTimeFunctions; }

absl::Span<const FunctionRow> ModuleFunctions() { return kModuleFunctions; }

}  // namespace nodewise
