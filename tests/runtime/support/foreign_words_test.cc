#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "nodewise/support/words.h"

namespace nodewise {
namespace {

struct Unsafe {
  const char* text;
  const char* printable;
  const char* json;
};
constexpr Unsafe kUnsafeTexts[] = {
    {"\x1b[2J", "\\x1b[2J", nullptr},
    {"a\nb\r\t", "a\\x0ab\\x0d\\x09", nullptr},
    {"\x7f", "\\x7f", "\\u007f"},
    {"\u0085", "\\u0085", "\\u0085"},
    {"\u009b31m", "\\u009b31m", "\\u009b31m"},
    {"\u061c", "\\u061c", "\\u061c"},
    {"\u200e\u200f", "\\u200e\\u200f", "\\u200e\\u200f"},
    {"\u2028\u2029", "\\u2028\\u2029", "\\u2028\\u2029"},
    {"\u202a\u202e", "\\u202a\\u202e", "\\u202a\\u202e"},
    {"\u2066\u2069", "\\u2066\\u2069", "\\u2066\\u2069"},
    {"\ufeff", "\\ufeff", "\\ufeff"},
    {"\U000e0041", "\\U000e0041", "\\udb40\\udc41"},
    {"\xff", "\\xff", nullptr},
    {"\x9b", "\\x9b", nullptr},           // A control of 8-bit terminals.
    {"\xc0\x8a", "\\xc0\\x8a", nullptr},  // A newline in two bytes.
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", nullptr},  // Half a character.
    {"\xe2\x80", "\\xe2\\x80", nullptr},           // Cut short.
};

TEST(ForeignWordsTest, UnsafeCharactersAreWrittenOut) {
  for (const Unsafe& unsafe : kUnsafeTexts) {
    EXPECT_EQ(Printable(unsafe.text), unsafe.printable);
  }
}

TEST(ForeignWordsTest, OtherWritingStaysAsItIs) {
  const std::string text =
      "conv_1 \u00e4\u00f1 \u05d0\u05d1 \u4e2d\u6587 \U0001f600\u200d "
      "~!$`\\";
  EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(PrintableLines(text), text);
  EXPECT_EQ(PrintableJson(text), text);
}

TEST(ForeignWordsTest, LinesKeepTheirEnds) {
  EXPECT_EQ(PrintableLines("a\n\tb\x1b\r\n"), "a\n\tb\\x1b\\x0d\n");
}

TEST(ForeignWordsTest, JsonMeansWhatItMeant) {
  for (const Unsafe& unsafe : kUnsafeTexts) {
    if (unsafe.json == nullptr) continue;
    EXPECT_EQ(PrintableJson(unsafe.text), unsafe.json);
  }
  EXPECT_EQ(PrintableJson("{\n  \"a\": 1\n}\n"), "{\n  \"a\": 1\n}\n");
}

TEST(ForeignWordsTest, NothingEndsACodeSpanOrBlock) {
  EXPECT_EQ(CodeSpan("a`b\n# c"), "a'b\\x0a# c");
  EXPECT_EQ(CodeSpan(""), " ");
  EXPECT_EQ(CodeSpan(std::string(1000, 'a')).size(), 203u);
  // No character is cut in two.
  EXPECT_EQ(CodeSpan("aaa\u4e2d", 4), "aaa...");
  EXPECT_EQ(CodeBlock("a\n```\n<b>\n"), "    a\n    ```\n    <b>\n");
}

std::string EchoedByBash(const std::string& word) {
  const std::string command = "bash -c \"$(cat <<'NODEWISE_END'\nprintf %s " +
                              word + "\nNODEWISE_END\n)\"";
  const auto close = [](std::FILE* file) { pclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(
      popen(command.c_str(), "r"), close);
  std::string out;
  std::array<char, 256> piece{};
  size_t got = 0;
  while ((got = std::fread(piece.data(), 1, piece.size(), pipe.get())) > 0) {
    out.append(piece.data(), got);
  }
  return out;
}

TEST(ForeignWordsTest, ShellsReadAWordAsItWas) {
  EXPECT_EQ(ShellWord("net/graph-1.json"), "net/graph-1.json");
  EXPECT_EQ(ShellWord("my net"), "'my net'");
  EXPECT_EQ(ShellWord("exec:python3 a.py"), "'exec:python3 a.py'");
  EXPECT_EQ(ShellWord(""), "''");
  for (const std::string word :
       {"it's", "$(touch x)", "`id`", "a;b|c&d", "*?[x]", "~", "a\\b", "\"q\"",
        "new\nline", "\x1b[0m'\\1", "\u202e!x", "\xff 7", "a#b", "!!"}) {
    EXPECT_EQ(EchoedByBash(ShellWord(word)), word);
    EXPECT_EQ(Printable(ShellWord(word)), ShellWord(word));
  }
}

TEST(ForeignWordsTest, NoCellOfATableIsAFormula) {
  EXPECT_EQ(CsvText("=1+1"), "'=1+1");
  EXPECT_EQ(CsvText("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(CsvText("-2+3"), "'-2+3");
  EXPECT_EQ(CsvText("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(CsvText("\t=1"), "'\\x09=1");
  EXPECT_EQ(CsvText("conv-1"), "conv-1");
  EXPECT_EQ(CsvText("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(CsvText("a", true), "\"a\"");
}

}  // namespace
}  // namespace nodewise
