/* Code of a vendor compiler: `scale` multiplies by a constant that
 * `__init_scale` is handed before. `blocked` has an init that fails. */
#include "kernels.h"
#include "nodewise/func/c_api.h"

void* __tvm_module_ctx = NULL;
static float factor = 0;
static int64_t inits = 0;

int __init_scale(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  TVMFunctionHandle get_item = NULL;
  if (num_args != 1 || codes[0] != kTVMObjectHandle ||
      TVMBackendGetFuncFromEnv(__tvm_module_ctx, "runtime.ArrayGetItem",
                               &get_item) != 0) {
    return -1;
  }
  TVMValue item_args[2] = {args[0], {.v_int64 = 0}};
  int item_codes[2] = {kTVMObjectHandle, kTVMArgInt};
  TVMValue item;
  int item_code = kTVMNullptr;
  if (TVMFuncCall(get_item, item_args, item_codes, 2, &item, &item_code) != 0 ||
      item_code != kTVMNDArrayHandle) {
    return -1;
  }
  factor = *(const float*)((DLTensor*)item.v_handle)->data;
  ++inits;
  ret->v_int64 = 0;
  *ret_code = kTVMArgInt;
  return TVMArrayFree(item.v_handle);
}

int scale(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_float64 = args[0].v_float64 * factor;
  *ret_code = kTVMArgFloat;
  return 0;
}

int counts_inits(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = inits;
  *ret_code = kTVMArgInt;
  return 0;
}

int __init_blocked(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = 5;
  *ret_code = kTVMArgInt;
  return 0;
}

int blocked(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}

/* Never called: the constant it wants is missing. */
int __init_starved(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return -1;
}
