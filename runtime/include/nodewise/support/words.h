#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nodewise {

// Returns the text with control characters as \xNN, since names in a file may
// hold terminal escapes, or what looks like another line.
std::string Printable(std::string_view text);

// Returns "69,356 bytes", "1 node".
std::string CountOf(uint64_t count, std::string_view noun);

// Returns "0x7fff0010", and "0" for the null address.
std::string AddressText(uint64_t address);

// Returns "SIGSEGV", "SIGKILL (out of memory?)", "signal 40".
std::string SignalText(int signal_number);

// Returns the arguments as a line for a shell.
std::string ShellLine(const std::vector<std::string>& arguments);

// Returns "a, b, c" for a message; after the first `most` names comes "...".
// Long names are shortened.
std::string ListOf(const std::vector<std::string>& names, size_t most = 20);

// Returns both numbers in as few digits as tell them apart, and no fewer than
// six: "1.00001" and "1.00002". NaN and infinity as such.
std::pair<std::string, std::string> FormatDistinct(double a, double b);

// Words from files, programs and users may hold what controls a terminal, looks
// like another line, or turns what stands beside it around. Printable() of
// words.h and these functions make them harmless where they are shown; nothing
// else does.
//
// Unsafe are control characters (U+0000 to U+001F, U+007F to U+009F), other
// line ends (U+2028, U+2029), marks of direction and others without a shape
// (U+061C, U+200B, U+200E, U+200F, U+202A to U+202E, U+2060 to U+206F, U+FEFF,
// U+FFF9 to U+FFFB, U+E0000 to U+E007F), and bytes that are not UTF-8.
// Printable() writes them out: \x1b, \u202e, \U000e0041.

// Does what Printable() does for lines of our own, whose newlines and tabs
// stay. Programs print through it; names in the lines must have been made
// printable before, lest they begin lines.
std::string PrintableLines(std::string_view text);

// Returns JSON in which what is unsafe stands as \uNNNN in its strings, which
// mean what they meant. REQUIRES: it is JSON in UTF-8.
std::string PrintableJson(std::string_view json);

// Returns the text with one `instead` for each unsafe character.
std::string ReplaceUnsafe(std::string_view text, char instead);

// Returns the text for a code span of Markdown, to be put between backquotes:
// printable, without what ends the span, and cut after `longest` bytes.
std::string CodeSpan(std::string_view text, size_t longest = 200);
// Returns the lines as a block of code, which nothing in them can end.
std::string CodeBlock(std::string_view lines);

// Returns a word of a command so that shells take it as this text: as it is, or
// quoted. Unsafe characters are written as bash, ksh and zsh read them.
std::string ShellWord(std::string_view text);

// Returns a text cell of a CSV file: printable, in quotes if it needs them, or
// always. Spreadsheets would take some texts for formulas: these get an
// apostrophe before them. Not for numbers.
std::string CsvText(std::string_view text, bool always_quoted = false);

// Lines of cells, padded so that columns line up.
class TextTable {
 public:
  // The cells are made printable.
  void AddRow(const std::vector<std::string>& cells);
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // Returns the lines, each indented by `indent` blanks. If there are more than
  // `limit`, returns the first ones and how many more there are. 0 means all.
  // The lines fit `line_width` characters by FitColumns(); 0 has no limit.
  std::string ToString(size_t indent, size_t limit,
                       size_t line_width = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Returns the bytes of the character that begins a text, which must not be
// empty; 0 if it is not UTF-8.
size_t CharacterBytes(std::string_view text);

// Returns the number of characters of a text in UTF-8.
size_t WidthOf(std::string_view text);

// Returns the text, or its beginning and its end around "..." if it has more
// than `width` characters: names that a compiler made often differ at the end.
std::string CutInMiddle(std::string_view text, size_t width);

// Narrows the columns, the widest first, until they fit `line` characters with
// two blanks between them. None gets too narrow to tell names apart, so very
// many columns still make a longer line. A `line` of 0 has no limit.
void FitColumns(size_t line, std::vector<size_t>* widths);

// How many lines of a list are shown unless the user asks for all.
inline constexpr size_t kShownLines = 20;

}  // namespace nodewise
