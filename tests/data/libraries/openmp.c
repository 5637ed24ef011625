/* A loop of OpenMP's, as code has that TVM's compilers call into. */
#include "kernels.h"

int openmp_square(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  const float* in = FloatsAt(args, 0);
  float* out = FloatsAt(args, 1);
  const int64_t count = CountAt(args, 0);
#pragma omp parallel for num_threads(4)
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] * in[i];
  return 0;
}
