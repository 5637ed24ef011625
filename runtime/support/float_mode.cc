#include "nodewise/support/float_mode.h"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace nodewise {

#ifdef __SSE__

// The functions of <cfenv> would take ten times as long, since they handle the
// old coprocessor too.
DefaultFloatMode::DefaultFloatMode() : before_(_mm_getcsr()) {
  constexpr uint32_t kDefault = 0x1F80;
  _mm_setcsr(kDefault);
}

DefaultFloatMode::~DefaultFloatMode() { _mm_setcsr(before_); }

#else

DefaultFloatMode::DefaultFloatMode() {
  std::fegetenv(&before_);
  std::fesetenv(FE_DFL_ENV);
}

DefaultFloatMode::~DefaultFloatMode() { std::fesetenv(&before_); }

#endif

}  // namespace nodewise
