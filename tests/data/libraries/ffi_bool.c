/* Bools as TVM-FFI's code has them: 8 bits of code 6. */
#include "ffi_kernels.h"

USES_RAISE;

static int IsBool(const DLTensor* tensor) {
  if (tensor->dtype.code == 6 && tensor->dtype.bits == 8) return 1;
  RAISE("TypeError", "Mismatched dtype", ", expected bool");
  return 0;
}

/* (x, y): y = not x */
int __tvm_ffi_not(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  const DLTensor* x = TensorAt(args, 0);
  const DLTensor* y = TensorAt(args, 1);
  if (!IsBool(x) || !IsBool(y)) return -1;
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    ((uint8_t*)y->data)[i] = !((const uint8_t*)x->data)[i];
  }
  return 0;
}
