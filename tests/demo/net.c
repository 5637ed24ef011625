/* A network of two operators, as a compiler for TVM's runtime would leave it:
 * one C function for each node of the graph, called with its tensors. */
#include <math.h>
#include <stdint.h>

#include "nodewise/func/packed_abi.h"

static float* Data(TVMValue* args, int i) {
  DLTensor* tensor = (DLTensor*)args[i].v_handle;
  return (float*)((char*)tensor->data + tensor->byte_offset);
}

/* y[3] = max(0, w[3][4] x[4] + b[3]) */
int tvmgen_default_fused_nn_dense_add_nn_relu(TVMValue* args, int* codes,
                                              int num_args, TVMValue* ret,
                                              int* ret_code, void* resource) {
  const float* x = Data(args, 0);
  const float* w = Data(args, 1);
  const float* b = Data(args, 2);
  float* y = Data(args, 3);
  (void)codes, (void)num_args, (void)ret, (void)ret_code, (void)resource;
  for (int i = 0; i < 3; ++i) {
    float sum = b[i];
    for (int k = 0; k < 4; ++k) sum += w[i * 4 + k] * x[k];
    y[i] = sum > 0 ? sum : 0;
  }
  return 0;
}

int tvmgen_default_fused_nn_softmax(TVMValue* args, int* codes, int num_args,
                                    TVMValue* ret, int* ret_code,
                                    void* resource) {
  const float* x = Data(args, 0);
  float* y = Data(args, 1);
  float sum = 0;
  (void)codes, (void)num_args, (void)ret, (void)ret_code, (void)resource;
  for (int i = 0; i < 3; ++i) sum += y[i] = expf(x[i]);
  for (int i = 0; i < 3; ++i) y[i] /= sum;
  return 0;
}
