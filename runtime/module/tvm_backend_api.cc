// The C functions that compiled code calls, in both of TVM's conventions,
// except those by which TVM-FFI code raises errors.

#include <bit>
#include <cstdint>
#include <mutex>

#include "nodewise/device/workspace_pool.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// A call without arguments may pass null for both lists.
absl::Status CheckArguments(const TVMValue* args, const int* type_codes,
                            int num_args) {
  if (num_args == 0) return absl::OkStatus();
  if (num_args < 0) {
    return InvalidArgument("TVMFuncCall: num_args is {}", num_args);
  }
  if (args == nullptr) return NullArgument("TVMFuncCall", "args");
  if (type_codes == nullptr) return NullArgument("TVMFuncCall", "type_codes");
  return absl::OkStatus();
}

// CallFromC() returns 0 or -1 alone. Functions that must pass on what their
// callee returns check their arguments with this.
int ReportNull(const char* function, const char* argument) {
  return Report(NullArgument(function, argument));
}

absl::Status RefuseDevice(const char* function, int device_type) {
  return Unavailable("{}: {} memory is not built in", function,
                     DeviceTypeName(device_type));
}

// A null context means that the library was loaded by something that does not
// fill it in.
absl::Status FindInContext(void* context, const char* name, void** out) {
  if (CallContext* const ours = CallContext::FromAddress(context)) {
    NODEWISE_ASSIGN_OR_RETURN(*out, ours->Find(name));
    return absl::OkStatus();
  }
  return FailedPrecondition(
      "compiled code calls {}, but its module context {}", name,
      context == nullptr ? "was never set" : "is not of this runtime");
}

}  // namespace

int FindForCode(void* context, const char* name, const char* symbol,
                void** out) {
  const bool is_ours =
      context == nullptr || CallContext::FromAddress(context) != nullptr;
  if (void* const theirs = is_ours ? nullptr : FindInTvmFfi(symbol)) {
    return reinterpret_cast<int (*)(void*, const char*, void**)>(theirs)(
        context, name, out);
  }
  return CallFromC(symbol, {{"name", name}, {"out", out}},
                   [&] { return FindInContext(context, name, out); });
}

// A function with C linkage is one and the same in every namespace, so these
// are the functions that the headers declare, and they use names of nodewise
// without a prefix.
extern "C" {

void TVMAPISetLastError(const char* message) {
  SetLastErrorText(message != nullptr ? message : "");
}

const char* TVMGetLastError(void) { return LastErrorMessage(); }
int TVMBackendGetFuncFromEnv(void* module_context, const char* name,
                             TVMFunctionHandle* out) {
  return FindForCode(module_context, name, "TVMBackendGetFuncFromEnv", out);
}

int TVMFuncCall(TVMFunctionHandle function, TVMValue* args, int* type_codes,
                int num_args, TVMValue* ret, int* ret_code) {
  if (function == nullptr) return ReportNull(__func__, "function");
  const absl::Status status = CheckArguments(args, type_codes, num_args);
  if (!status.ok()) return Report(status);
  // A caller that does not want the result passes null.
  TVMValue unused_value;
  int unused_code = kTVMNullptr;
  if (ret == nullptr) ret = &unused_value;
  if (ret_code == nullptr) ret_code = &unused_code;
  *ret_code = kTVMNullptr;
  const auto* object =
      static_cast<FunctionObject*>(Object::FromHandle(function));
  if (object == nullptr) {
    return Report(InvalidArgument(
        "TVMFuncCall: the handle is not a function of this runtime"));
  }
  DropLastError();
  int rc = 0;
  try {
    rc = object->address()(args, type_codes, num_args, ret, ret_code,
                           object->resource());
  } catch (...) {
    return Report(StatusOfException("TVMFuncCall"));
  }
  // Objects that compiled C++ returns need not be this runtime's.
  if (rc == 0 &&
      (*ret_code == kTVMPackedFuncHandle || *ret_code == kTVMModuleHandle)) {
    ret->v_handle = Object::ToHandle(Object::Adopt(ret->v_handle, *ret_code));
  }
  // An earlier call's error must not be taken for the reason.
  if (rc != 0 && !HasLastError()) {
    SetLastError(TakeLastError());
  }
  return rc;
}

int TVMBackendRegisterSystemLibSymbol(const char* name, void* address) {
  return CallFromC(__func__, {{"name", name}, {"address", address}}, [&] {
    RegisterSystemSymbol(name, address);
    return absl::OkStatus();
  });
}

int TVMBackendRegisterEnvCAPI(const char* name, void* address) {
  return CallFromC(__func__, {{"name", name}, {"address", address}},
                   [&] { return SetPythonFunction(name, address); });
}

// The memory is the host's: kernels for other devices take theirs from their
// own runtimes.
void* TVMBackendAllocWorkspace(int device_type, int, uint64_t nbytes, int,
                               int) {
  void* data = nullptr;
  CallFromC(__func__, {}, [&] {
    if (device_type != kDLCPU) {
      return RefuseDevice("TVMBackendAllocWorkspace", device_type);
    }
    data = WorkspacePool::ThisThread().AllocWorkspace(nbytes);
    if (data != nullptr) return absl::OkStatus();
    return ResourceExhausted("workspace: cannot allocate {} bytes", nbytes);
  });
  return data;
}

int TVMBackendFreeWorkspace(int device_type, int, void* data) {
  return CallFromC(__func__, {}, [&] {
    if (device_type != kDLCPU) {
      return RefuseDevice("TVMBackendFreeWorkspace", device_type);
    }
    return WorkspacePool::ThisThread().FreeWorkspace(data);
  });
}

// The error of a task may have been raised in either convention; TakeFfiError()
// knows both.
int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* cdata,
                             int num_task) {
  const auto run = [lambda, cdata](int task_id, TaskGroup& group) {
    TVMParallelGroupEnv env{&group, group.num_tasks()};
    if (lambda(task_id, &env, cdata) == 0) return absl::OkStatus();
    return TakeFfiError();
  };
  return CallFromC(__func__,
                   {{"lambda", reinterpret_cast<const void*>(lambda)}},
                   [&] { return ParallelRun(num_task, run); });
}

int TVMBackendParallelBarrier(int, TVMParallelGroupEnv* env) {
  return CallFromC(__func__, {{"env", env}}, [&] {
    auto* const group = static_cast<TaskGroup*>(env->sync_handle);
    if (group->Barrier()) return absl::OkStatus();
    return Aborted("parallel barrier: another task of the loop has failed");
  });
}

// Compiled code calls it while its module is set up, on one thread; the handle
// marks that it was done.
int TVMBackendRunOnce(void** handle, int (*function)(void*), void* cdata, int) {
  if (handle == nullptr) return ReportNull(__func__, "handle");
  if (function == nullptr) return ReportNull(__func__, "function");
  if (*handle != nullptr) return 0;
  *handle = reinterpret_cast<void*>(1);
  return function(cdata);
}
// Half conversions that code of TVM 0.10 and older leaves to its runtime. Weak,
// so that a compiler's own runtime library may bring them.
__attribute__((weak)) uint16_t __gnu_f2h_ieee(float value) {
  return FloatToHalf(value);
}

__attribute__((weak)) float __gnu_h2f_ieee(uint16_t value) {
  return HalfToFloat(value);
}
// The result is in two registers: LLVM up to 14 takes it from one for integers,
// LLVM from 15 on and GCC from one for vectors.
#ifdef __x86_64__
struct HalfInBothRegisters {
  uint64_t integer;
  double vector;
};
__attribute__((weak)) HalfInBothRegisters __truncdfhf2(double value) {
  const uint64_t half = DoubleToHalf(value);
  return {half, std::bit_cast<double>(half)};
}
#else
__attribute__((weak)) uint16_t __truncdfhf2(double value) {
  return DoubleToHalf(value);
}
#endif

// A function object holds its address behind the head. It may be another
// runtime's, so that nothing else of it is looked at.
int TVMFFIFunctionCall(void* function, TVMFFIAny* args, int32_t num_args,
                       TVMFFIAny* result) {
  if (function == nullptr) return ReportNull(__func__, "function");
  const auto* cell = reinterpret_cast<const TVMFFIFunctionCell*>(
      static_cast<const TVMFFIObject*>(function) + 1);
  return cell->safe_call(function, args, num_args, result);
}

int TVMFFIEnvModLookupFromImports(void* library_ctx, const char* name,
                                  void** out) {
  return FindForCode(library_ctx, name, "TVMFFIEnvModLookupFromImports", out);
}

int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result)) {
  if (handle == nullptr) return ReportNull(__func__, "handle");
  if (init == nullptr) return ReportNull(__func__, "init");
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE) != nullptr) return 0;
  // Recursive, since `init` may come back here, and never destroyed, since code
  // runs until the process ends.
  static auto* const mutex = new std::recursive_mutex;
  const std::lock_guard lock(*mutex);
  if (*handle != nullptr) return 0;
  void* result = nullptr;
  const int rc = init(&result);
  if (rc == 0) __atomic_store_n(handle, result, __ATOMIC_RELEASE);
  return rc;
}

}  // extern "C"
}  // namespace nodewise
