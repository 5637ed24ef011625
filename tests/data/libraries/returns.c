/* What a function may return, and one that fails without a message. */
#include "kernels.h"

int returns_nothing(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}

int returns_int(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = 42;
  *ret_code = kTVMArgInt;
  return 0;
}

int returns_text(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_str = "static text";
  *ret_code = kTVMStr;
  return 0;
}

int counts_arguments(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  ret->v_int64 = num_args;
  *ret_code = kTVMArgInt;
  return 0;
}

int fails_silently(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return -1;
}
