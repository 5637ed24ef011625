/* Wants something of its runtime, by a pointer or by name, that it cannot have:
 * the library must be refused, for its code would end the process. */
#include "ffi_kernels.h"

#ifdef FFI_WANTS_POINTER
WEAK int (*__TVMFFIFuture)(int) = NULL;
#define FUTURE __TVMFFIFuture
#else
int FFI_WANTS(int);
#define FUTURE FFI_WANTS
#endif

int __tvm_ffi_from_the_future(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return FUTURE(num_args);
}
