// The named functions that time other functions.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/time_repeats.h"
#include "nodewise/module/module.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status_macros.h"
#include "runtime/builtin/function_tables.h"

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
  return absl::NotFoundError(fmt::format("no function {} is registered", name));
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
  return absl::NotFoundError(fmt::format(
      "a module of kind {} has no function {}", module->kind(), name));
}

// Takes module, name, device type and number; the timing arguments, 3 until TVM
// 0.8, 5 in 0.9, 6 since 0.10; cache_flush_bytes since 0.14; the name of a
// function to call before each repeat, "" for none.
absl::StatusOr<Evaluator> TakeEvaluator(PackedArgs args) {
  constexpr int kFirst = 4;
  const int count = args.size();
  if (count != 8 && count != 10 && count != 11 && count != 12) {
    return absl::InvalidArgumentError(fmt::format(
        "RPCTimeEvaluator: got {} arguments, expected 12 as in TVM 0.14, 11 as "
        "in 0.10, 10 as in 0.9 or 8 as in 0.8",
        count));
  }
  Evaluator evaluator;
  NODEWISE_ASSIGN_OR_RETURN(evaluator.function, FunctionToTime(args));
  NODEWISE_ASSIGN_OR_RETURN(const int type, args.SmallIntAt(2));
  NODEWISE_ASSIGN_OR_RETURN(const int number, args.SmallIntAt(3));
  evaluator.device = MakeDevice(type, number);
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

// Evicts what caches hold by copying one array over another.
class CacheFlusher {
 public:
  static absl::StatusOr<CacheFlusher> Create(int bytes, DLDevice device) {
    CacheFlusher flusher;
    if (bytes <= 0) return flusher;
    const int64_t shape[] = {bytes};
    constexpr DLDataType kByte{kDLUInt, 8, 1};
    NODEWISE_ASSIGN_OR_RETURN(flusher.from_,
                              NDArray::Empty(shape, kByte, device));
    NODEWISE_ASSIGN_OR_RETURN(flusher.to_,
                              NDArray::Empty(shape, kByte, device));
    return flusher;
  }

  absl::Status Flush() const {
    return from_.defined() ? CopyTensor(*from_, *to_) : absl::OkStatus();
  }

 private:
  NDArray from_, to_;  // Undefined if there is nothing to flush.
};

absl::StatusOr<Value> Evaluate(const Evaluator& evaluator, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(Device* const device, FindDevice(evaluator.device));
  NODEWISE_ASSIGN_OR_RETURN(
      const CacheFlusher flusher,
      CacheFlusher::Create(evaluator.cache_flush_bytes, evaluator.device));
  const int id = evaluator.device.device_id;
  const auto time_calls = [&](int64_t number) -> absl::StatusOr<int64_t> {
    NODEWISE_RETURN_IF_ERROR(flusher.Flush());
    NODEWISE_RETURN_IF_ERROR(device->Synchronize(id));
    const int64_t start = ClockNanoseconds();
    for (int64_t i = 0; i < number; ++i) {
      NODEWISE_RETURN_IF_ERROR(evaluator.function.CallPacked(args).status());
    }
    NODEWISE_RETURN_IF_ERROR(device->Synchronize(id));
    return ClockNanoseconds() - start;
  };
  const auto before_repeat = [&]() -> absl::Status {
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
absl::StatusOr<Value> MakeTimeEvaluator(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluator evaluator, TakeEvaluator(args));
  return Value(Ref<Object>(
      PackedFunc::FromBody([evaluator = std::move(evaluator)](PackedArgs call) {
        return Evaluate(evaluator, call);
      }).object()));
}

// Writes a tensor's bytes back to memory and out of all caches.
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

// (tensor...): all but the first.
absl::StatusOr<Value> FlushNonFirst(PackedArgs args) {
  for (int i = 1; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, arg.AsTensor());
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
