/* Needs libm, whose functions are none of the model's. */
#include <math.h>

#include "kernels.h"

int cosine(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_float64 = cos(args[0].v_float64);
  *ret_code = kTVMArgFloat;
  return 0;
}
