#include "nodewise/report/report_text.h"

#include <utility>

namespace nodewise {

ReportText& ReportText::operator+=(std::string_view lines) {
  if (lines.empty()) return *this;
  if (blocks_.empty() || blocks_.back().table.has_value()) {
    blocks_.emplace_back();
  }
  blocks_.back().lines += lines;
  return *this;
}

ReportText& ReportText::operator+=(const ReportText& other) {
  for (const Block& block : other.blocks_) {
    if (block.table.has_value()) {
      blocks_.push_back(block);
    } else {
      *this += block.lines;
    }
  }
  return *this;
}

void ReportText::Add(TextTable rows, size_t indent, size_t most_rows) {
  if (rows.rows().empty()) return;
  blocks_.push_back({"", Table{std::move(rows), indent, most_rows}});
}

std::string ReportText::ToString(const TextLayout& layout) const {
  std::string text;
  for (const Block& block : blocks_) {
    text += block.lines;
    if (!block.table.has_value()) continue;
    const Table& table = *block.table;
    text += table.rows.ToString(table.indent,
                                layout.has_all_lines ? 0 : table.most_rows,
                                layout.line_width);
  }
  return text;
}

void ReportText::AddTo(std::string_view key, JsonWriter* json) const {
  json->BeginArray(key);
  for (const Block& block : blocks_) {
    if (!block.table.has_value()) {
      json->Add({}, block.lines);
      continue;
    }
    json->BeginObject();
    json->Add("indent", uint64_t{block.table->indent});
    json->Add("most_rows", uint64_t{block.table->most_rows});
    json->BeginArray("rows");
    for (const std::vector<std::string>& row : block.table->rows.rows()) {
      json->AddTexts({}, row);
    }
    json->EndArray();
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace nodewise
