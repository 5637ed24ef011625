/* A library of one function, which the C target repeats under the entry's
 * name. */
#include "kernels.h"

int the_only_function(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = 8;
  *ret_code = kTVMArgInt;
  return 0;
}

int __tvm_main__(PACKED_PARAMETERS) {
  return the_only_function(args, codes, num_args, ret, ret_code, resource);
}
