/* One input and two outputs. */
#include "kernels.h"

int split(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  const int64_t half = CountAt(args, 1);
  for (int64_t i = 0; i < half; ++i) {
    FloatsAt(args, 1)[i] = FloatsAt(args, 0)[i];
    FloatsAt(args, 2)[i] = FloatsAt(args, 0)[half + i];
  }
  return 0;
}
