/* Two scratch buffers at a time, taken and given back in the order of a stack,
 * through the pointers of the LLVM target. */
#include "kernels.h"
#include "llvm_shape.h"

USES_WORKSPACE;

int reverse(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  const int64_t count = CountAt(args, 0);
  const uint64_t bytes = (uint64_t)count * sizeof(float);
  float* first = __TVMBackendAllocWorkspace(1, 0, bytes, 2, 32);
  if (first == NULL) return -1;
  float* second = __TVMBackendAllocWorkspace(1, 0, bytes, 2, 32);
  if (second == NULL) return -1;
  for (int64_t i = 0; i < count; ++i) first[i] = FloatsAt(args, 0)[i];
  for (int64_t i = 0; i < count; ++i) second[i] = first[count - 1 - i];
  for (int64_t i = 0; i < count; ++i) FloatsAt(args, 1)[i] = second[i];
  if (__TVMBackendFreeWorkspace(1, 0, second) != 0) return -1;
  return __TVMBackendFreeWorkspace(1, 0, first) != 0 ? -1 : 0;
}

/* Asks for scratch memory of a device, as host code for a GPU may. */
int wants_cuda_memory(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return __TVMBackendAllocWorkspace(2, 0, 64, 2, 32) == NULL ? -1 : 0;
}
