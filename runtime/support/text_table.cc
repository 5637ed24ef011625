#include "nodewise/support/text_table.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kGap = 2;         // Blanks between columns.
constexpr size_t kNarrowest = 16;  // What a column is narrowed to.

// Bytes 0x80 to 0xBF continue a character of UTF-8.
bool BeginsCharacter(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

// Returns where the character with this number begins; the end of the text if
// there are not so many.
size_t PlaceOfCharacter(std::string_view text, size_t number) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && number-- == 0) return i;
  }
  return text.size();
}

}  // namespace

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
