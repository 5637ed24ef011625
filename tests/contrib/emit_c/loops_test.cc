#include <gtest/gtest.h>

#include "contrib/emit_c/loop_nest.h"

namespace nodewise::emit_c {
namespace {

TEST(EmittedLoopsTest, SidesThatLieOneBehindTheOtherAreOneLoop) {
  const View compact = CompactView({2, 3, 4});
  const LoopNest nest({2, 3, 4}, {compact, compact});
  EXPECT_TRUE(nest.is_one_row());
  EXPECT_EQ(nest.At(0), "i0");
}

TEST(EmittedLoopsTest, ARepeatedSideHasALoopOfItsOwn) {
  const LoopNest nest(
      {2, 3, 4}, {CompactView({2, 3, 4}), RepeatedView({3, 1}, {2, 3, 4})});
  EXPECT_FALSE(nest.is_one_row());
  EXPECT_EQ(nest.At(0), "i0 * 12 + i1 * 4 + i2");
  EXPECT_EQ(nest.At(1), "i1");
}

TEST(EmittedLoopsTest, ASideWithoutElementsLeavesNothingToDo) {
  EXPECT_TRUE(LoopNest({2, 0}, {CompactView({2, 0})}).is_empty());
  EXPECT_FALSE(LoopNest({}, {CompactView({})}).is_empty());
}

TEST(EmittedTextTest, NumbersAreAsCWantsThem) {
  EXPECT_EQ(IntegerText(-1), "-1");
  EXPECT_EQ(IntegerText(INT64_MIN), "(-INT64_C(9223372036854775807) - 1)");
  EXPECT_EQ(DoubleText(1), "1.0");
  EXPECT_EQ(DoubleText(-0.0), "(-0.0)");
  EXPECT_EQ(DoubleText(1e300), "1.0000000000000001e+300");
}

TEST(EmittedTextTest, AnIdentifierIsFoundAsAWholeOnly) {
  EXPECT_TRUE(HasWord("y = tmp1[0];", "tmp1"));
  EXPECT_FALSE(HasWord("y = tmp10[0];", "tmp1"));
}

}  // namespace
}  // namespace nodewise::emit_c
