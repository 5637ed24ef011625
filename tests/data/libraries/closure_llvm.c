/* Calls a function by name, as the LLVM target writes it: the handle is looked
 * up once and kept for ever. */
#include "kernels.h"
#include "llvm_shape.h"

USES_FUNC_CALL;
USES_FUNC_FROM_ENV;

static TVMFunctionHandle cached_handle = NULL; /* .tvm_func.test.twice */

int calls_twice(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (cached_handle == NULL &&
      __TVMBackendGetFuncFromEnv(__tvm_module_ctx, "test.twice",
                                 &cached_handle) != 0) {
    return -1;
  }
  TVMValue call_args[1] = {args[0]};
  int call_codes[1] = {codes[0]};
  return __TVMFuncCall(cached_handle, call_args, call_codes, 1, ret,
                       ret_code) == 0
             ? 0
             : -1;
}

/* Calls its first argument, a function, with its second. */
int calls_argument(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return __TVMFuncCall(args[0].v_handle, args + 1, codes + 1, num_args - 1, ret,
                       ret_code);
}
