/* Calls a function by name, as the C target writes it: the context is a strong
 * variable, and the runtime's functions are plain undefined symbols. */
#include "kernels.h"
#include "nodewise/func/c_api.h"

void* __tvm_module_ctx = NULL;
static void* test_twice_packed = NULL;

int calls_twice(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (test_twice_packed == NULL &&
      TVMBackendGetFuncFromEnv(__tvm_module_ctx, "test.twice",
                               &test_twice_packed) != 0) {
    return -1;
  }
  TVMValue result;
  int result_code = kTVMNullptr;
  if (TVMFuncCall(test_twice_packed, args, codes, 1, &result, &result_code) !=
      0) {
    return -1;
  }
  *ret = result;
  *ret_code = result_code;
  return 0;
}
