#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {

// How words are laid out for a reader.
struct TextLayout {
  size_t line_width = 0;       // For tables; 0: no limit.
  bool has_all_lines = false;  // Lists are not cut.
};

// What a report says to people: lines, and tables that are not laid out yet, so
// that the same report fits a narrow terminal and a wide page, today or when it
// is read back from an archive.
class ReportText {
 public:
  // A table among the lines.
  struct Table {
    TextTable rows;
    size_t indent = 0;
    size_t most_rows = 0;  // How many are shown unless all are; 0: all.
  };
  struct Block {
    std::string lines;  // Empty for a table.
    std::optional<Table> table = std::nullopt;
  };

  ReportText& operator+=(std::string_view lines);
  ReportText& operator+=(const char* lines) {
    return *this += std::string_view(lines);
  }
  ReportText& operator+=(const std::string& lines) {
    return *this += std::string_view(lines);
  }
  ReportText& operator+=(char c) { return *this += std::string_view(&c, 1); }
  ReportText& operator+=(const ReportText& other);
  void Add(TextTable rows, size_t indent = 0, size_t most_rows = 0);

  bool empty() const { return blocks_.empty(); }
  void clear() { blocks_.clear(); }
  const std::vector<Block>& blocks() const { return blocks_; }

  std::string ToString(const TextLayout& layout = {}) const;

  // Adds the blocks as an array: a text for lines, an object for a table.
  void AddTo(std::string_view key, JsonWriter* json) const;

 private:
  std::vector<Block> blocks_;
};

}  // namespace nodewise
