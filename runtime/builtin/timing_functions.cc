#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <string>
#include <utility>

#include "nodewise/func/time_repeats.h"
#include "nodewise/module/module.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

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

constexpr FunctionRow kTimeFunctions[] = {
    {"runtime.RPCTimeEvaluator", &MakeTimeEvaluator},
    {"cache_flush_cpu_non_first_arg", &FlushNonFirst},
};

}  // namespace

absl::Span<const FunctionRow> TimingFunctions() { return kTimeFunctions; }

}  // namespace nodewise
