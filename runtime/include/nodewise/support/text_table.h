#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nodewise {

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
