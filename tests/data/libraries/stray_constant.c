/* A constant where the runtime would write a pointer. */
#include "kernels.h"

/* The sanitizer would put a margin behind the variable, which then is not small
 * any more. */
#ifdef __clang__
#define NO_MARGIN __attribute__((no_sanitize("address")))
#else
#define NO_MARGIN
#endif

#ifdef SMALL
NO_MARGIN char STRAY = 1;
#else
extern const int64_t STRAY;
const int64_t STRAY = 7;
#endif

int nothing(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return 0;
}
