#include "nodewise/support/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace nodewise {
namespace {

// The thread's mode at the end of a test is that at its beginning.
class FloatModeTest : public testing::Test {
 protected:
  FloatModeTest() { std::fegetenv(&before_); }
  ~FloatModeTest() override { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

// Calculated here, and nowhere else.
double Third() {
  volatile double one = 1;
  volatile double third = one / 3;
  return third;
}

TEST_F(FloatModeTest, RoundingIsToNearestAndThenAsItWas) {
  const double nearest = Third();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_GT(Third(), nearest);
  {
    const DefaultFloatMode mode;
    EXPECT_EQ(Third(), nearest);
  }
  EXPECT_GT(Third(), nearest);
}

TEST_F(FloatModeTest, FlagsAreThoseOfBefore) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_DIVBYZERO);
  {
    const DefaultFloatMode mode;
    Third();
  }
  EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INEXACT), FE_DIVBYZERO);
}

#ifdef __SSE__
TEST_F(FloatModeTest, DenormalNumbersAreNotZero) {
  volatile float tiny = 1e-40F;
  _mm_setcsr(_mm_getcsr() | 0x8040);
  EXPECT_EQ(static_cast<double>(tiny), 0);
  const DefaultFloatMode mode;
  EXPECT_GT(static_cast<double>(tiny), 0);
}
#endif

}  // namespace
}  // namespace nodewise
