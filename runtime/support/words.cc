#include "nodewise/support/words.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

struct CodeRange {
  char32_t first, last;
};
// The unsafe characters that the header lists. Terminals obey some of them, and
// editors show text in another order for others.
constexpr CodeRange kUnsafe[] = {
    {0x00, 0x1F},     {0x7F, 0x9F},      {0x61C, 0x61C},   {0x200B, 0x200B},
    {0x200E, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F}, {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};

// A character in UTF-8, or a byte that is none. The text is gone through once,
// character by character; a byte that begins none stands for itself.
struct Character {
  static constexpr char32_t kNone = ~char32_t{0};

  char32_t code = kNone;
  std::string_view bytes;

  bool is_safe() const {
    return code != kNone &&
           std::ranges::none_of(kUnsafe, [this](const CodeRange& range) {
             return range.first <= code && code <= range.last;
           });
  }
};

// Bytes 0x80 to 0xBF continue a character of UTF-8.
bool IsInside(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns the first character of a text that is not empty. Longer forms than
// needed, halves of surrogates and numbers beyond the last are none.
Character NextCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const Character single{Character::kNone, text.substr(0, 1)};
  if (first < 0x80) return {first, text.substr(0, 1)};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return single;
  char32_t code = first & (0x7F >> length);
  for (const char c : text.substr(1, length - 1)) {
    if (!IsInside(c)) return single;
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  }
  const bool is_short =
      length == 3 ? code < 0x800 : length == 4 && code < 0x10000;
  if (is_short || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) {
    return single;
  }
  return {code, text.substr(0, length)};
}

// Safe characters, which nearly all are, go through without a look at what
// replaces others.
template <typename Replace>
std::string Replaced(std::string_view text, const Replace& replace) {
  std::string replaced;
  replaced.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character character = NextCharacter(text.substr(at));
    at += character.bytes.size();
    if (character.is_safe()) {
      replaced += character.bytes;
    } else {
      replace(character, &replaced);
    }
  }
  return replaced;
}

// The form tells a byte from a character.
void AppendEscape(const Character& character, std::string* out) {
  const auto code = static_cast<uint32_t>(character.code);
  if (character.bytes.size() == 1) {
    *out += fmt::format("\\x{:02x}",
                        static_cast<unsigned char>(character.bytes[0]));
  } else if (code < 0x10000) {
    *out += fmt::format("\\u{:04x}", code);
  } else {
    *out += fmt::format("\\U{:08x}", code);
  }
}

constexpr size_t kGap = 2;         // Blanks between columns.
constexpr size_t kNarrowest = 16;  // What a column is narrowed to.

bool BeginsCharacter(char c) { return !IsInside(c); }

// Returns whether no shell sees more in a word than its characters.
bool IsPlainWord(std::string_view text) {
  constexpr std::string_view kPlain = "@%+=:,./_-";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kPlain.find(c) != kPlain.npos;
  });
}

size_t PlaceOfCharacter(std::string_view text, size_t number) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && number-- == 0) return i;
  }
  return text.size();
}

}  // namespace

std::string Printable(std::string_view text) {
  return Replaced(text, &AppendEscape);
}

// The program has put the newlines and tabs into such a text itself, so they
// stay.
std::string PrintableLines(std::string_view text) {
  return Replaced(text, [](const Character& character, std::string* out) {
    if (character.bytes == "\n" || character.bytes == "\t") {
      *out += character.bytes;
    } else {
      AppendEscape(character, out);
    }
  });
}

// JSON writes characters beyond the first 65536 as two halves.
std::string PrintableJson(std::string_view json) {
  return Replaced(json, [](const Character& character, std::string* out) {
    const char32_t code = character.code;
    // Between strings there are line ends; JSON allows no others in them.
    if (code < 0x20) {
      *out += character.bytes;
    } else if (code < 0x10000) {
      *out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      *out += fmt::format(
          "\\u{:04x}\\u{:04x}",
          static_cast<uint32_t>(0xD800 + ((code - 0x10000) >> 10)),
          static_cast<uint32_t>(0xDC00 + ((code - 0x10000) & 0x3FF)));
    }
  });
}

std::string ReplaceUnsafe(std::string_view text, char instead) {
  return Replaced(
      text, [instead](const Character&, std::string* out) { *out += instead; });
}

// A backquote would end the span and have what follows read as Markdown.
std::string CodeSpan(std::string_view text, size_t longest) {
  size_t end = std::min(text.size(), longest);
  while (end < text.size() && end > 0 && IsInside(text[end])) --end;
  std::string span = Printable(text.substr(0, end));
  std::replace(span.begin(), span.end(), '`', '\'');
  if (text.size() > end) span += "...";
  return span.empty() ? " " : span;
}

// Four blanks make a block that no line can leave, unlike a fence.
std::string CodeBlock(std::string_view lines) {
  std::string block;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    block += "    " + PrintableLines(lines.substr(0, end)) + "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return block;
}

// Single quotes leave all characters as they are, but for the quote itself.
// What a terminal must not get is written in the form $'...'.
std::string ShellWord(std::string_view text) {
  if (IsPlainWord(text)) return std::string(text);
  const bool is_printable = Printable(text) == text;
  std::string word = is_printable ? "'" : "$'";
  for (size_t at = 0; at < text.size();) {
    const Character character = NextCharacter(text.substr(at));
    at += character.bytes.size();
    if (character.bytes == "'") {
      word += is_printable ? "'\\''" : "\\'";
    } else if (character.bytes == "\\" && !is_printable) {
      word += "\\\\";
    } else if (character.is_safe()) {
      word += character.bytes;
    } else {
      for (const char c : character.bytes) {
        // Three digits always: what follows may be a digit, too.
        word += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
      }
    }
  }
  return word + "'";
}

// A cell that begins with one of these would be calculated.
std::string CsvText(std::string_view text, bool always_quoted) {
  constexpr std::string_view kFormula = "=+-@\t\r";
  std::string cell = Printable(text);
  if (!text.empty() && kFormula.find(text[0]) != kFormula.npos) {
    cell.insert(0, "'");
  }
  if (!always_quoted && cell.find_first_of(",\"") == cell.npos) return cell;
  return '"' + absl::StrReplaceAll(cell, {{"\"", "\"\""}}) + '"';
}

std::string CountOf(uint64_t count, std::string_view noun) {
  std::string digits = fmt::format("{}", count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string AddressText(uint64_t address) {
  return address == 0 ? "0" : fmt::format("{:#x}", address);
}

// SIGKILL is what the system sends when memory runs out, and nothing says so.
std::string SignalText(int signal_number) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
      {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},
      {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
      {SIGSYS, "SIGSYS"},   {SIGTERM, "SIGTERM"},
      {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
      {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},
      {SIGQUIT, "SIGQUIT"}, {SIGKILL, "SIGKILL (out of memory?)"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal_number) return name;
  }
  return fmt::format("signal {}", signal_number);
}

// For commands of our own, whose words are printable.
std::string ShellLine(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (IsPlainWord(argument)) {
      line += argument;
      continue;
    }
    line += "'" + absl::StrReplaceAll(argument, {{"'", "'\\''"}}) + "'";
  }
  return line;
}

std::string ListOf(const std::vector<std::string>& names, size_t most) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    list.append(i == 0 ? "" : ", ").append(Shortened(names[i]));
  }
  return names.size() > most ? list + ", ..." : list;
}

// With all 17 digits any two numbers read differently.
std::pair<std::string, std::string> FormatDistinct(double a, double b) {
  constexpr int kFewest = 6;
  constexpr int kMost = std::numeric_limits<double>::max_digits10;
  std::pair<std::string, std::string> texts;
  for (int digits = kFewest; digits <= kMost; ++digits) {
    texts = {fmt::format("{:.{}g}", a, digits),
             fmt::format("{:.{}g}", b, digits)};
    if (texts.first != texts.second) break;
  }
  return texts;
}

// Cells may hold names from files.
void TextTable::AddRow(const std::vector<std::string>& cells) {
  std::vector<std::string>& row = rows_.emplace_back();
  for (const std::string& cell : cells) row.push_back(Printable(cell));
}

std::string TextTable::ToString(size_t indent, size_t limit,
                                size_t line_width) const {
  const size_t shown =
      limit == 0 ? rows_.size() : std::min(limit, rows_.size());
  std::vector<size_t> widths;
  for (size_t r = 0; r < shown; ++r) {
    widths.resize(std::max(widths.size(), rows_[r].size()));
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], WidthOf(rows_[r][c]));
    }
  }
  FitColumns(line_width - std::min(line_width, indent), &widths);
  std::string text;
  for (size_t r = 0; r < shown; ++r) {
    std::string line(indent, ' ');
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string cell = CutInMiddle(rows_[r][c], widths[c]);
      line += cell;
      line.append(widths[c] - WidthOf(cell) + kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (shown < rows_.size()) {
    const std::string_view how = NameOf(Way::kEveryLine);
    text += std::string(indent, ' ') +
            fmt::format("... {} more{}\n", rows_.size() - shown,
                        how.empty() ? "" : fmt::format(" ({})", how));
  }
  return text;
}

size_t CharacterBytes(std::string_view text) {
  const Character first = NextCharacter(text);
  return first.code == Character::kNone ? 0 : first.bytes.size();
}

size_t WidthOf(std::string_view text) {
  return std::count_if(text.begin(), text.end(), BeginsCharacter);
}

std::string CutInMiddle(std::string_view text, size_t width) {
  constexpr std::string_view kDots = "...";
  const size_t whole = WidthOf(text);
  if (whole <= width) return std::string(text);
  const size_t kept = width - std::min(width, kDots.size());
  const size_t at_end = kept / 2;
  std::string cut(text.substr(0, PlaceOfCharacter(text, kept - at_end)));
  cut += kDots;
  return cut.append(text.substr(PlaceOfCharacter(text, whole - at_end)));
}

// Taking from the widest column one by one leaves narrow ones whole.
void FitColumns(size_t line, std::vector<size_t>* widths) {
  if (line == 0 || widths->empty()) return;
  // No column stays wider than the line; what narrows them goes in small steps.
  for (size_t& width : *widths) {
    width = std::min(width, std::max(line, kNarrowest));
  }
  size_t used = kGap * (widths->size() - 1);
  for (const size_t width : *widths) used += width;
  while (used > line) {
    size_t& widest = *std::max_element(widths->begin(), widths->end());
    if (widest <= kNarrowest) return;
    --widest;
    --used;
  }
}

}  // namespace nodewise
