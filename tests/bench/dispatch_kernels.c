/* A thousand functions with the ABI of TVM's compilers, bench_add_000 to
 * bench_add_999, each of which adds two tensors of 16 floats. */

#include "dlpack/dlpack.h"
#include "nodewise/func/packed_abi.h"

/* What code by TVM asks about its arguments first, in short. */
#define KERNEL(n)                                                           \
  int bench_add_##n(TVMValue* values, int* codes, int count, TVMValue* ret, \
                    int* ret_code, void* resource) {                        \
    (void)ret, (void)ret_code, (void)resource;                              \
    if (count != 3 || codes[0] != kTVMDLTensorHandle ||                     \
        codes[1] != kTVMDLTensorHandle || codes[2] != kTVMDLTensorHandle) { \
      return -1;                                                            \
    }                                                                       \
    const DLTensor* const to = (const DLTensor*)values[2].v_handle;         \
    if (to->ndim != 1 || to->shape[0] != 16) return -1;                     \
    const float* a = (const float*)((DLTensor*)values[0].v_handle)->data;   \
    const float* b = (const float*)((DLTensor*)values[1].v_handle)->data;   \
    float* const sum = (float*)to->data;                                    \
    for (int i = 0; i < 16; ++i) sum[i] = a[i] + b[i];                      \
    return 0;                                                               \
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
