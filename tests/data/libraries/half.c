/* Code of TVM 0.10 and older leaves the conversion of halves to the runtime. */
#include "kernels.h"

uint16_t __gnu_f2h_ieee(float value);
float __gnu_h2f_ieee(uint16_t value);

int halve_halves(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  const uint16_t* in = TensorAt(args, 0)->data;
  uint16_t* out = TensorAt(args, 1)->data;
  for (int64_t i = 0; i < CountAt(args, 0); ++i) {
    out[i] = __gnu_f2h_ieee(__gnu_h2f_ieee(in[i]) / 2);
  }
  return 0;
}
