/* The functions of dispatch_kernels.c with the ABI of TVM-FFI. */

#include "dlpack/dlpack.h"
#include "nodewise/func/ffi_abi.h"

#define KERNEL(n)                                                      \
  int __tvm_ffi_bench_add_##n(void* self, const TVMFFIAny* args,       \
                              int32_t count, TVMFFIAny* result) {      \
    (void)self, (void)result;                                          \
    if (count != 3 || args[0].type_index != kTVMFFIDLTensorPtr ||      \
        args[1].type_index != kTVMFFIDLTensorPtr ||                    \
        args[2].type_index != kTVMFFIDLTensorPtr) {                    \
      return -1;                                                       \
    }                                                                  \
    const DLTensor* const to = (const DLTensor*)args[2].v_ptr;         \
    if (to->ndim != 1 || to->shape[0] != 16 || to->byte_offset != 0) { \
      return -1;                                                       \
    }                                                                  \
    const float* a = (const float*)((DLTensor*)args[0].v_ptr)->data;   \
    const float* b = (const float*)((DLTensor*)args[1].v_ptr)->data;   \
    float* const sum = (float*)to->data;                               \
    for (int i = 0; i < 16; ++i) sum[i] = a[i] + b[i];                 \
    return 0;                                                          \
  }

/* clang-format off */
#define TEN(n)                                                       \
  KERNEL(n##0) KERNEL(n##1) KERNEL(n##2) KERNEL(n##3) KERNEL(n##4)   \
  KERNEL(n##5) KERNEL(n##6) KERNEL(n##7) KERNEL(n##8) KERNEL(n##9)
#define HUNDRED(n)                                                   \
  TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4)                  \
  TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)

HUNDRED(0) HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4)
HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)
