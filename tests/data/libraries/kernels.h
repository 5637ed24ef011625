/* What the functions of these libraries share. */
#ifndef NODEWISE_TESTS_DATA_LIBRARIES_KERNELS_H_
#define NODEWISE_TESTS_DATA_LIBRARIES_KERNELS_H_

#include "nodewise/func/packed_abi.h"

/* The parameters of a packed function, the unused ones too. */
#define PACKED_PARAMETERS                                                 \
  TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code, \
      void *resource
#define UNUSED_PARAMETERS                                              \
  ((void)args, (void)codes, (void)num_args, (void)ret, (void)ret_code, \
   (void)resource)

static inline DLTensor* TensorAt(TVMValue* args, int index) {
  return (DLTensor*)args[index].v_handle;
}

static inline float* FloatsAt(TVMValue* args, int index) {
  return (float*)TensorAt(args, index)->data;
}

static inline int64_t CountAt(TVMValue* args, int index) {
  const DLTensor* tensor = TensorAt(args, index);
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

#endif /* NODEWISE_TESTS_DATA_LIBRARIES_KERNELS_H_ */
