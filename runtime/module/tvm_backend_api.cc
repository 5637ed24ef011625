// The C functions that compiled code calls.

#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/c_api.h"
#include "nodewise/runtime/ffi_function.h"
#include "nodewise/runtime/half.h"
#include "nodewise/runtime/last_error.h"
#include "nodewise/runtime/workspace_pool.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/module/symbols.h"

namespace nodewise {
namespace {

int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

absl::Status RefuseDevice(const char* function, int device_type) {
  return absl::UnavailableError(absl::StrFormat(
      "%s: %s memory is not built in", function, DeviceTypeName(device_type)));
}

}  // namespace
}  // namespace nodewise

using nodewise::Report;

void TVMAPISetLastError(const char* message) {
  nodewise::SetLastError(
      absl::InternalError(message != nullptr ? message : ""));
}

const char* TVMGetLastError(void) { return nodewise::LastErrorMessage(); }

int TVMBackendGetFuncFromEnv(void* module_context, const char* name,
                             TVMFunctionHandle* out) {
  return nodewise::FindForCode(module_context, name, "TVMBackendGetFuncFromEnv",
                               out);
}

int TVMFuncCall(TVMFunctionHandle function, TVMValue* args, int* type_codes,
                int num_args, TVMValue* ret, int* ret_code) {
  const auto* object = static_cast<nodewise::FunctionObject*>(function);
  if (object == nullptr) {
    return Report(absl::InvalidArgumentError("TVMFuncCall: function is null"));
  }
  // A caller that does not want the result passes null.
  TVMValue unused_value;
  int unused_code = kTVMNullptr;
  if (ret == nullptr) ret = &unused_value;
  if (ret_code == nullptr) ret_code = &unused_code;
  *ret_code = kTVMNullptr;
  nodewise::DropLastError();
  return object->address()(args, type_codes, num_args, ret, ret_code,
                           object->resource());
}

int TVMBackendRegisterSystemLibSymbol(const char* name, void* address) {
  nodewise::RegisterSystemSymbol(name, address);
  return 0;
}

int TVMBackendRegisterEnvCAPI(const char* name, void* address) {
  nodewise::RegisterContextSymbol(std::string("__") + name, address);
  return 0;
}

void* TVMBackendAllocWorkspace(int device_type, int, uint64_t nbytes, int,
                               int) {
  if (device_type != kDLCPU) {
    Report(nodewise::RefuseDevice("TVMBackendAllocWorkspace", device_type));
    return nullptr;
  }
  void* const data =
      nodewise::WorkspacePool::ThisThread().AllocWorkspace(nbytes);
  if (data == nullptr) {
    Report(absl::ResourceExhaustedError(
        absl::StrFormat("workspace: cannot allocate %d bytes", nbytes)));
  }
  return data;
}

int TVMBackendFreeWorkspace(int device_type, int, void* data) {
  if (device_type != kDLCPU) {
    return Report(
        nodewise::RefuseDevice("TVMBackendFreeWorkspace", device_type));
  }
  return Report(nodewise::WorkspacePool::ThisThread().FreeWorkspace(data));
}

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* cdata,
                             int num_task) {
  return Report(nodewise::ParallelRun(
      num_task, [lambda, cdata](int task_id, nodewise::TaskGroup& group) {
        TVMParallelGroupEnv env{&group, group.num_tasks()};
        if (lambda(task_id, &env, cdata) == 0) return absl::OkStatus();
        return nodewise::TakeFfiError();
      }));
}

int TVMBackendParallelBarrier(int, TVMParallelGroupEnv* env) {
  auto* const group = static_cast<nodewise::TaskGroup*>(env->sync_handle);
  if (group->Barrier()) return 0;
  return Report(absl::AbortedError(
      "parallel barrier: another task of the loop has failed"));
}

int TVMBackendRunOnce(void** handle, int (*function)(void*), void* cdata, int) {
  if (*handle != nullptr) return 0;
  *handle = reinterpret_cast<void*>(1);
  return function(cdata);
}

// Half conversions that code of TVM 0.10 and older leaves to its runtime. Weak,
// so that a compiler's own runtime library may bring them.
extern "C" {
__attribute__((weak)) uint16_t __gnu_f2h_ieee(float value) {
  return nodewise::FloatToHalf(value);
}
__attribute__((weak)) float __gnu_h2f_ieee(uint16_t value) {
  return nodewise::HalfToFloat(value);
}
// LLVM up to 14 takes its result from an integer register, LLVM from 15 on and
// GCC from one for vectors, and all of them find this one.
#ifdef __x86_64__
struct HalfInBothRegisters {
  uint64_t integer;
  double vector;
};
__attribute__((weak)) HalfInBothRegisters __truncdfhf2(double value) {
  const uint64_t half = nodewise::DoubleToHalf(value);
  return {half, std::bit_cast<double>(half)};
}
#else
__attribute__((weak)) uint16_t __truncdfhf2(double value) {
  return nodewise::DoubleToHalf(value);
}
#endif
}
