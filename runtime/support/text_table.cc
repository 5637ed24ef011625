#include "nodewise/support/text_table.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {
void TextTable::AddRow(const std::vector<std::string>& cells) {
  std::vector<std::string>& row = rows_.emplace_back();
  for (const std::string& cell : cells) row.push_back(Printable(cell));
}

std::string TextTable::ToString(size_t indent, size_t limit) const {
  const size_t shown =
      limit == 0 ? rows_.size() : std::min(limit, rows_.size());
  std::vector<size_t> widths;
  for (size_t r = 0; r < shown; ++r) {
    widths.resize(std::max(widths.size(), rows_[r].size()));
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], rows_[r][c].size());
    }
  }
  std::string text;
  for (size_t r = 0; r < shown; ++r) {
    std::string line(indent, ' ');
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      line += rows_[r][c];
      line.append(widths[c] - rows_[r][c].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (shown < rows_.size()) {
    text += std::string(indent, ' ') +
            fmt::format("... {} more (--all)\n", rows_.size() - shown);
  }
  return text;
}

}  // namespace nodewise
