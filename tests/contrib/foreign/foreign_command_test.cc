#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/foreign/foreign_runner.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(ForeignCommandTest, WordsAreSplitAtBlanksAndQuotesKeepThemTogether) {
  const std::pair<const char*, std::vector<std::string>> table[] = {
      {"run", {"run"}},
      {"  ./run\t-x  --y=1 ", {"./run", "-x", "--y=1"}},
      {"run 'a b' \"c d\"", {"run", "a b", "c d"}},
      {"run a' 'b", {"run", "a b"}},
      {"run '' \"\"", {"run", "", ""}},
      {R"(run "a\"b\\c\n")", {"run", R"(a"b\c\n)"}},
      {R"(run 'a\' a\ b \')", {"run", "a\\", "a b", "'"}},
      {"run $HOME *.py ;|>&`x`", {"run", "$HOME", "*.py", ";|>&`x`"}},
  };
  for (const auto& [text, words] : table) {
    const auto command = ParseForeignCommand(text);
    ASSERT_THAT(command, IsOk()) << text;
    EXPECT_EQ(command->arguments, words) << text;
  }
}

TEST(ForeignCommandTest, TheNameIsThatOfTheProgramWithoutItsFolder) {
  EXPECT_EQ(ParseForeignCommand("/opt/my/runtime -x")->name, "runtime");
}

TEST(ForeignCommandTest, WhatHasNoProgramOrNoEndIsRefused) {
  const std::pair<const char*, const char*> table[] = {
      {"", "has no program"},         {"  ", "has no program"},
      {"'' x", "has no program"},     {"run 'x", "ends within quotes"},
      {"run \"x\\\"", "ends within"}, {"run x\\", "after a backslash"},
  };
  for (const auto& [text, message] : table) {
    EXPECT_THAT(
        ParseForeignCommand(text),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  }
}

}  // namespace
}  // namespace nodewise
