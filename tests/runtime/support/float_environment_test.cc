#include "nodewise/support/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <thread>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace nodewise {
namespace {

// The thread's environment at the end of a test is that at its beginning.
class FloatEnvironmentTest : public testing::Test {
 protected:
  FloatEnvironmentTest() { std::fegetenv(&before_); }
  ~FloatEnvironmentTest() override { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

// Calculated here, and nowhere else.
double Third() {
  volatile double one = 1;
  volatile double third = one / 3;
  return third;
}

TEST_F(FloatEnvironmentTest, RoundingIsToNearestAndThenAsItWas) {
  const double nearest = Third();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_GT(Third(), nearest);
  {
    const DefaultFloatEnvironment floats;
    EXPECT_EQ(Third(), nearest);
  }
  EXPECT_GT(Third(), nearest);
}

TEST_F(FloatEnvironmentTest, FlagsAreThoseOfBefore) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_DIVBYZERO);
  {
    const DefaultFloatEnvironment floats;
    Third();
  }
  EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INEXACT), FE_DIVBYZERO);
}

TEST_F(FloatEnvironmentTest, CandidateKeepsWhatItsCodeLeft) {
  {
    const DefaultFloatEnvironment outer;
    {
      const CandidateFloatEnvironment candidate;
      std::fesetround(FE_DOWNWARD);
    }
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    const DefaultFloatEnvironment inner;
    {
      const CandidateFloatEnvironment candidate;
      EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
      const DefaultFloatEnvironment judged;  // A kernel of the reference.
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    }
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  }
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
}

TEST_F(FloatEnvironmentTest, CandidateOfAHostIsTheThreadItself) {
  std::fesetround(FE_UPWARD);
  {
    const CandidateFloatEnvironment candidate;
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_DOWNWARD);
  }
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
}

TEST_F(FloatEnvironmentTest, LibrariesOfOneCandidateDoNotReachTheNext) {
  const DefaultFloatEnvironment floats;
  {
    const KeepCandidateFloats kept;
    const CandidateFloatEnvironment candidate;
    std::fesetround(FE_UPWARD);
  }
  EXPECT_EQ(CandidateFloats(), DefaultFloats());
}

TEST_F(FloatEnvironmentTest, ThreadsOfOursTakeOverBoth) {
  const DefaultFloatEnvironment floats;
  {
    const CandidateFloatEnvironment candidate;
    std::fesetround(FE_UPWARD);
  }
  int judged = -1, candidate = -1;
  const ThreadFloats handed;
  std::thread([&] {
    handed.Adopt();
    judged = std::fegetround();
    const CandidateFloatEnvironment scope;
    candidate = std::fegetround();
  }).join();
  EXPECT_EQ(judged, FE_TONEAREST);
  EXPECT_EQ(candidate, FE_UPWARD);
}

TEST_F(FloatEnvironmentTest, WatchPutsBackOrLeavesWhatWasChanged) {
  for (const bool puts_back : {true, false}) {
    FloatWatch watch(puts_back);
    std::fesetround(FE_TOWARDZERO);
    const auto change = watch.Finish();
    ASSERT_TRUE(change.has_value());
    EXPECT_EQ(DescribeChange(*change),
              "the rounding mode changed (towards zero, was to nearest)");
    EXPECT_TRUE(ChangesResults(*change));
    EXPECT_EQ(std::fegetround(), puts_back ? FE_TONEAREST : FE_TOWARDZERO);
    std::fesetround(FE_TONEAREST);
  }
}

TEST_F(FloatEnvironmentTest, FlagsOfExceptionsAreNotAChange) {
  FloatWatch watch(true);
  std::feraiseexcept(FE_DIVBYZERO | FE_INEXACT);
  EXPECT_FALSE(watch.Finish().has_value());
}

TEST_F(FloatEnvironmentTest, NumberOfAnEnvironmentSaysItAll) {
  std::fesetround(FE_UPWARD);
  const FloatEnvironment floats = ReadFloatEnvironment();
  EXPECT_EQ(UnpackFloats(PackFloats(floats)), floats);
}

#ifdef __x86_64__

TEST_F(FloatEnvironmentTest, SubnormalNumbersAreNotZero) {
  volatile float tiny = 1e-40F;
  _mm_setcsr(_mm_getcsr() | 0x8040);
  EXPECT_EQ(static_cast<double>(tiny), 0);
  const DefaultFloatEnvironment floats;
  EXPECT_GT(static_cast<double>(tiny), 0);
}

struct ChangeCase {
  FloatEnvironment after;
  const char* text;
  bool changes_results;
};

TEST_F(FloatEnvironmentTest, EveryPartOfItHasWords) {
  const ChangeCase cases[] = {
      {{0x9FC0, 0x37F}, "subnormal numbers treated as zero", false},
      {{0x9F80, 0x37F}, "subnormal results made zero", false},
      {{0x1FC0, 0x37F}, "subnormal operands read as zero", false},
      {{0x1D80, 0x37F}, "traps set for division by zero", false},
      {{0x1D00, 0x37F},
       "traps set for invalid operations and division by zero",
       false},
      {{0x5F80, 0xB7F},
       "the rounding mode changed (upward, was to nearest)",
       true},
      {{0x1F80, 0x77F},
       "the rounding mode changed (downward, was to nearest) for long double "
       "alone",
       true},
      {{0x1F80, 0x37B},
       "traps set for division by zero for long double alone",
       false},
      {{0x1F80, 0x07F}, "the precision of long double changed", true},
      {{0xFFC0, 0xF7F},
       "the rounding mode changed (towards zero, was to nearest) and subnormal "
       "numbers treated as zero",
       true},
  };
  for (const ChangeCase& one : cases) {
    const FloatChange change{DefaultFloats(), one.after};
    EXPECT_EQ(DescribeChange(change), one.text);
    EXPECT_EQ(ChangesResults(change), one.changes_results) << one.text;
  }
  EXPECT_EQ(DescribeChange({{0x9FC0, 0x37F}, DefaultFloats()}),
            "subnormal numbers no longer zero");
  EXPECT_EQ(DescribeChange({{0x1D80, 0x37F}, DefaultFloats()}),
            "no traps for division by zero");
}

TEST_F(FloatEnvironmentTest, TrapsArePutBackBeforeAnythingTraps) {
  FloatWatch watch(true);
  feenableexcept(FE_DIVBYZERO);
  ASSERT_TRUE(watch.Finish().has_value());
  volatile double zero = 0;
  volatile double infinity = 1 / zero;
  EXPECT_GT(infinity, 1);
}

#endif

}  // namespace
}  // namespace nodewise
