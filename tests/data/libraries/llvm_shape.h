/* What TVM's LLVM target gives a library: weak pointers that start as null and
 * that the runtime fills after loading. A library has only those it uses. */
#ifndef NODEWISE_TESTS_DATA_LIBRARIES_LLVM_SHAPE_H_
#define NODEWISE_TESTS_DATA_LIBRARIES_LLVM_SHAPE_H_

#include "nodewise/func/packed_abi.h"

#define WEAK __attribute__((weak))

#define USES_FUNC_CALL                                               \
  WEAK int (*__TVMFuncCall)(TVMFunctionHandle, TVMValue*, int*, int, \
                            TVMValue*, int*) = NULL
#define USES_SET_LAST_ERROR \
  WEAK void (*__TVMAPISetLastError)(const char*) = NULL
#define USES_FUNC_FROM_ENV                                           \
  WEAK int (*__TVMBackendGetFuncFromEnv)(void*, const char*,         \
                                         TVMFunctionHandle*) = NULL; \
  WEAK void* __tvm_module_ctx = NULL
#define USES_WORKSPACE                                                     \
  WEAK void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = \
      NULL;                                                                \
  WEAK int (*__TVMBackendFreeWorkspace)(int, int, void*) = NULL
#define USES_PARALLEL                                                      \
  WEAK int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void*, int) = \
      NULL;                                                                \
  WEAK int (*__TVMBackendParallelBarrier)(int, TVMParallelGroupEnv*) = NULL

#endif /* NODEWISE_TESTS_DATA_LIBRARIES_LLVM_SHAPE_H_ */
