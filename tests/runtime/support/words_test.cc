#include "nodewise/support/words.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace nodewise {
namespace {

TEST(WordsTest, AddressIsHexadecimalAndNullIsBareZero) {
  EXPECT_EQ(AddressText(0), "0");
  EXPECT_EQ(AddressText(0x7fff0010), "0x7fff0010");
  EXPECT_EQ(AddressText(UINT64_MAX), "0xffffffffffffffff");
}

}  // namespace
}  // namespace nodewise
