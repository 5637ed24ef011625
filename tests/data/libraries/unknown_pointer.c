/* Wants a function of the runtime that does not exist: it must be refused, for
 * its code would call a null pointer. */
#include "kernels.h"
#include "llvm_shape.h"

WEAK int (*__TVMBackendFuture)(int) = NULL;
USES_SET_LAST_ERROR;

int from_the_future(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (num_args > 0) __TVMAPISetLastError("from the future");
  return __TVMBackendFuture(num_args);
}
