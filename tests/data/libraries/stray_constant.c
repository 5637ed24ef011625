/* A constant where the runtime would write a pointer. */
#include "kernels.h"

#ifdef SMALL
char STRAY = 1;
#else
extern const int64_t STRAY;
const int64_t STRAY = 7;
#endif

int nothing(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}
