/* A function with the ABI of TVM's compilers that reads a large tensor, works
 * on it a little, and writes another. */

#include <stddef.h>

#include "dlpack/dlpack.h"
#include "nodewise/func/packed_abi.h"

/* y = x * a + b, four times over: 8 FLOP for the 4 bytes of an element. */
static void Steps(const float* restrict x, float* restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value = x[i];
    for (int step = 0; step < 4; ++step) value = value * 0.5F + 0.25F;
    y[i] = value;
  }
}

int bench_steps(TVMValue* values, int* codes, int count, TVMValue* ret,
                int* ret_code, void* resource) {
  (void)ret, (void)ret_code, (void)resource;
  if (count != 2 || codes[0] != kTVMDLTensorHandle ||
      codes[1] != kTVMDLTensorHandle) {
    return -1;
  }
  const DLTensor* const from = (const DLTensor*)values[0].v_handle;
  DLTensor* const to = (DLTensor*)values[1].v_handle;
  if (to->ndim != 1 || from->ndim != 1 || from->shape[0] != to->shape[0]) {
    return -1;
  }
  Steps((const float*)from->data, (float*)to->data, (size_t)to->shape[0]);
  return 0;
}
