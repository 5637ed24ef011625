#include "contrib/emit_c/shared_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nodewise::emit_c {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SkeletonTest, NumbersAreThoseThatAParameterCanBe) {
  EXPECT_THAT(SkeletonOf("y[i0 * 12] = 7;").numbers, ElementsAre("12", "7"));
  for (const char* whole :
       {"x0 + 1.5e-10 + 2e+30 + 255.0f", "static const int64_t t[] = {1, 2};",
        "INT64_C(5000000000)", "/* 3 */", "nw_fail(\"side 4\")"}) {
    EXPECT_THAT(SkeletonOf(whole).numbers, IsEmpty()) << whole;
  }
}

TEST(SharedLoopsTest, TextsThatDifferInNumbersAreOneFunction) {
  const SharedLoops shared = ShareLoops(
      {{"float* y", "  f(y, 2, 8, 8);\n"}, {"float* y", "  f(y, 2, 9, 9);\n"}});
  ASSERT_EQ(shared.functions.size(), 1u);
  EXPECT_TRUE(shared.functions[0].takes_numbers);
  EXPECT_EQ(shared.functions[0].body,
            "  const int64_t number0 = numbers[0];\n"
            "  f(y, 2, number0, number0);\n");
  EXPECT_THAT(shared.calls[0].numbers, ElementsAre("8"));
  EXPECT_THAT(shared.calls[1].numbers, ElementsAre("9"));
  EXPECT_EQ(shared.calls[1].function, 0u);
}

TEST(SharedLoopsTest, OtherTypesCodeAndSizesThatAreKeptAreNotShared) {
  const SharedLoops shared = ShareLoops({{"float* y", "  f(y, 1);\n"},
                                         {"double* y", "  f(y, 2);\n"},
                                         {"float* y", "  g(y, 3);\n"},
                                         {"float* y", "  f(y, 4);\n", true}});
  ASSERT_EQ(shared.functions.size(), 4u);
  for (const auto& function : shared.functions) {
    EXPECT_FALSE(function.takes_numbers);
  }
  EXPECT_EQ(shared.functions[3].body, "  f(y, 4);\n");
}

}  // namespace
}  // namespace nodewise::emit_c
