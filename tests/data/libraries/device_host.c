/* The host side of code for a GPU: it calls the kernel by name with its launch
 * sizes; the kernel is in the blob. */
#include "kernels.h"
#include "llvm_shape.h"

USES_FUNC_CALL;
USES_FUNC_FROM_ENV;

int launches_kernel(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  TVMFunctionHandle kernel = NULL;
  if (__TVMBackendGetFuncFromEnv(__tvm_module_ctx, "the_kernel", &kernel) !=
      0) {
    return -1;
  }
  TVMValue call_args[3] = {args[0], {.v_int64 = 1}, {.v_int64 = 4}};
  int call_codes[3] = {kTVMOpaqueHandle, kTVMArgInt, kTVMArgInt};
  return __TVMFuncCall(kernel, call_args, call_codes, 3, ret, ret_code);
}
