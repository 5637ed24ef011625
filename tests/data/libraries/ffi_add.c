/* x + y, of four floats each, with the checks that TVM-FFI's code begins with,
 * and the functions that such a library has besides. */
#include "ffi_kernels.h"

USES_RAISE;

static int IsFourFloats(const TVMFFIAny* arg) {
  if (arg->type_index != kTVMFFIDLTensorPtr) {
    RAISE("TypeError", "Mismatched type on argument", ", expected Tensor");
    return 0;
  }
  const DLTensor* tensor = arg->v_ptr;
  if (tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32) {
    RAISE("TypeError", "Mismatched dtype on argument", ", expected float32");
    return 0;
  }
  if (tensor->byte_offset != 0) {
    RAISE("ValueError", "Mismatched byte_offset", ", expected 0");
    return 0;
  }
  if (tensor->ndim != 1 || tensor->shape[0] != 4) {
    RAISE("ValueError", "Invalid x.shape[0] on argument", ", expected 4");
    return 0;
  }
  return 1;
}

int FFI_NAME(tvmgen_default_fused_add)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  if (num_args != 3) {
    RAISE("TypeError", "Expected 3 arguments", " when calling: add");
    return -1;
  }
  for (int i = 0; i < 3; ++i) {
    if (!IsFourFloats(&args[i])) return -1;
  }
  const float* x = FloatsAt(args, 0);
  const float* y = FloatsAt(args, 1);
  float* sum = FloatsAt(args, 2);
  for (int i = 0; i < 4; ++i) sum[i] = x[i] + y[i];
  return 0;
}

int FFI_NAME(fails_silently)(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return -1;
}

#if FFI_ERA == 21
void* __tvm_ffi_library_ctx = NULL;

WEAK int __tvm_ffi_main__(FFI_PARAMETERS) {
  return tvmgen_default_fused_add(self, args, num_args, result);
}
#else
WEAK int __tvm_ffi_main(FFI_PARAMETERS) {
  return __tvm_ffi_tvmgen_default_fused_add(self, args, num_args, result);
}

int __tvm_ffi__metadata_tvmgen_default_fused_add(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}

int __tvm_ffi__doc_tvmgen_default_fused_add(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}
#endif
