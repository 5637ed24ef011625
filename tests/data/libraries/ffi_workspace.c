/* Scratch memory and a parallel loop, through the pointers of the LLVM target
 * of TVM-FFI. */
#include "ffi_kernels.h"

USES_RAISE;
WEAK void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = NULL;
WEAK int (*__TVMBackendFreeWorkspace)(int, int, void*) = NULL;
WEAK int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void*, int) = NULL;
WEAK int (*__TVMBackendParallelBarrier)(int, TVMParallelGroupEnv*) = NULL;

int __tvm_ffi_reverse(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  const int64_t count = TensorAt(args, 0)->shape[0];
  float* copy =
      __TVMBackendAllocWorkspace(kDLCPU, 0, count * sizeof(float), 2, 32);
  if (copy == NULL) return -1;
  /* What generated code assumes of it. */
  if ((uintptr_t)copy % 64 != 0) {
    RAISE("ValueError", "workspace is", " not aligned");
    return -1;
  }
  for (int64_t i = 0; i < count; ++i) copy[i] = FloatsAt(args, 0)[i];
  for (int64_t i = 0; i < count; ++i) {
    FloatsAt(args, 1)[i] = copy[count - 1 - i];
  }
  return __TVMBackendFreeWorkspace(kDLCPU, 0, copy);
}

/* Squares its element, waits for all the others, then adds what its right
 * neighbour made before the barrier. */
static int NeighbourTask(int task, TVMParallelGroupEnv* env, void* cdata) {
  const TVMFFIAny* args = cdata;
  const float* in = FloatsAt(args, 0);
  float* out = FloatsAt(args, 1);
  out[task] = in[task] * in[task];
  if (__TVMBackendParallelBarrier(task, env) != 0) return -1;
  const float neighbour = out[(task + 1) % env->num_task];
  if (__TVMBackendParallelBarrier(task, env) != 0) return -1;
  out[task] += neighbour;
  return 0;
}

int __tvm_ffi_add_neighbours_square(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return __TVMBackendParallelLaunch(&NeighbourTask, (void*)args,
                                    (int)TensorAt(args, 0)->shape[0]);
}

static int FailingTask(int task, TVMParallelGroupEnv* env, void* cdata) {
  (void)env;
  (void)cdata;
  if (task != 1) return 0;
  RAISE("RuntimeError", "task one is", " out of luck");
  return -1;
}

int __tvm_ffi_fails_in_task_one(FFI_PARAMETERS) {
  UNUSED_PARAMETERS;
  return __TVMBackendParallelLaunch(&FailingTask, NULL, 4);
}
