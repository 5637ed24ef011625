#pragma once

#include <string>
#include <vector>

namespace nodewise {

// Lines of cells, padded so that columns line up.
class TextTable {
 public:
  // The cells are made printable.
  void AddRow(const std::vector<std::string>& cells);

  // Returns the lines, each indented by `indent` blanks. If there are more than
  // `limit`, returns the first ones and how many more there are. 0 means all.
  std::string ToString(size_t indent, size_t limit) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// How many lines of a list are shown unless the user asks for all.
inline constexpr size_t kShownLines = 20;

}  // namespace nodewise
