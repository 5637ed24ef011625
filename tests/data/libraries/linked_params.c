/* Parameters that TVM 0.8 linked into the code: p0 of the test graph has
 * storage id 1. */
#include "kernels.h"

static const float p0[4] __attribute__((aligned(128))) = {10, 20, 30, 40};

int _lookup_linked_param(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (num_args != 1 || codes[0] != kTVMArgInt) return -1;
  if (args[0].v_int64 != 1) {
    *ret_code = kTVMNullptr;
    return 0;
  }
  ret->v_handle = (void*)p0;
  *ret_code = kTVMOpaqueHandle;
  return 0;
}
