#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nodewise {

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
std::string WithoutUnsafe(std::string_view text, char instead);

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

}  // namespace nodewise
