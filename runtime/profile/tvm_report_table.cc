#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <functional>
#include <limits>

#include "fmt/format.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {
namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

constexpr std::string_view kSeparator = "----------";

// Columns that are always there, in this order; the others follow, by their
// bytes.
constexpr std::string_view kFirstColumns[] = {kReportName,    kReportDuration,
                                              kReportPercent, kReportDevice,
                                              kReportCount,   kReportShapes};

// Counts come from JSON and may be as large as 64 bits allow; a sum that wraps
// would be negative.
int64_t SaturatedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

// Adds a cell to a sum of the same kind. Strings that differ have no sum, and
// neither have cells of two kinds.
void AddCell(const Cell& cell, Cell* sum) {
  if (cell.index() != sum->index()) {
    *sum = "";
    return;
  }
  if (double* const number = NumberOf(sum)) {
    *number += *NumberOf(cell);
  } else if (auto* count = std::get_if<int64_t>(sum)) {
    *count = SaturatedSum(*count, std::get<int64_t>(cell));
  } else if (std::get<std::string>(cell) != std::get<std::string>(*sum)) {
    *sum = "";
  }
}

// Returns null for a missing cell and for one of another kind.
template <typename Kind>
const Kind* FindIn(const Row& row, std::string_view key) {
  const auto place = row.find(key);
  return place == row.end() ? nullptr : std::get_if<Kind>(&place->second);
}

// What is not there counts as no text, so grouping cannot fail.
std::string TextOf(const Row& row, std::string_view key) {
  const auto* text = FindIn<std::string>(row, key);
  return text == nullptr ? "" : *text;
}

// Kernel, arguments and device. TVM concatenates the three, so that different
// groups may become one.
using GroupKey = std::array<std::string, 3>;

GroupKey GroupOf(const Row& call) {
  const auto kernel = call.contains(kReportHash) ? kReportHash : kReportName;
  return {TextOf(call, kernel), TextOf(call, kReportShapes),
          TextOf(call, kReportDevice)};
}

struct Group {
  Row sums;
  std::map<std::string, int64_t> ratios;  // How many went into each sum.
};

void AddCall(const Row& call, Group* group) {
  for (const auto& [key, cell] : call) {
    const auto [place, is_first] = group->sums.emplace(key, cell);
    if (!is_first) AddCell(cell, &place->second);
    if (std::holds_alternative<TvmReport::Ratio>(cell)) ++group->ratios[key];
  }
}

// Returns one row for each group, in the order of their first calls.
std::vector<Row> Aggregate(const std::vector<Row>& calls) {
  std::map<GroupKey, size_t> places;
  std::vector<Group> groups;
  for (const Row& call : calls) {
    const auto place = places.emplace(GroupOf(call), groups.size());
    if (place.second) groups.emplace_back();
    AddCall(call, &groups[place.first->second]);
  }
  std::vector<Row> rows;
  rows.reserve(groups.size());
  for (Group& group : groups) {
    for (const auto& [key, count] : group.ratios) {
      // Strings that differ, or cells of two kinds, have left no ratio.
      if (auto* ratio = std::get_if<TvmReport::Ratio>(&group.sums[key])) {
        ratio->ratio /= static_cast<double>(count);
      }
    }
    rows.push_back(std::move(group.sums));
  }
  return rows;
}

// Rows without a time come last; a comparison must not meet a NaN. A duration
// may be NaN or missing in a report that a host has made.
double SortKey(const Row& row) {
  const auto* duration = FindIn<TvmReport::Duration>(row, kReportDuration);
  if (duration == nullptr || std::isnan(duration->microseconds)) {
    return -std::numeric_limits<double>::infinity();
  }
  return duration->microseconds;
}

Row SumOf(const std::vector<Row>& rows) {
  Row sums;
  for (const Row& row : rows) {
    for (const auto& [key, cell] : row) {
      if (std::holds_alternative<std::string>(cell) ||
          std::holds_alternative<TvmReport::Ratio>(cell)) {
        continue;
      }
      const auto [place, is_first] = sums.emplace(key, cell);
      if (!is_first) AddCell(cell, &place->second);
    }
  }
  sums[std::string(kReportName)] = "Sum";
  return sums;
}

// The order of these steps is TVM's: sums are those of the joined rows, and
// totals of devices stand below everything.
std::vector<Row> RowsOf(const TvmReport& report, bool sort, bool aggregate,
                        bool col_sums) {
  std::vector<Row> rows = aggregate ? Aggregate(report.calls) : report.calls;
  if (sort) {
    // Stable, unlike TVM's: a report always gives the same text.
    std::ranges::stable_sort(rows, std::greater(), &SortKey);
  }
  if (col_sums) {
    Row sums = SumOf(rows);
    rows.push_back({{std::string(kReportName), std::string(kSeparator)}});
    rows.push_back(std::move(sums));
  }
  for (const auto& [device, metrics] : report.device_metrics) {
    rows.push_back(metrics);
    rows.back()[std::string(kReportName)] = "Total";
  }
  return rows;
}

// A name must neither break the lines of the table nor control the terminal.
std::string CleanText(std::string_view text) {
  return ReplaceUnsafe(CleanUtf8(text), '?');
}

// TVM takes the locale from the environment; here it is the one that the
// program has set, so that a program which set none gets the same text
// everywhere. As in TVM, percents ignore it.
std::string CellText(const Cell& cell, const lconv& locale) {
  if (const double* const number = NumberOf(cell)) {
    const bool is_ratio = std::holds_alternative<TvmReport::Ratio>(cell);
    const std::string text = is_ratio ? fmt::format("{:.2g}", *number)
                                      : fmt::format("{:.2f}", *number);
    const bool is_percent = std::holds_alternative<TvmReport::Percent>(cell);
    return is_percent ? text : LocalNumber(text, locale);
  }
  if (const auto* count = std::get_if<int64_t>(&cell)) {
    return LocalNumber(std::to_string(*count), locale);
  }
  return CleanText(std::get<std::string>(cell));
}

struct Column {
  std::vector<std::string> cells;  // The first is the header.
  size_t width = 0;
};

using ColumnNumbers = std::map<std::string_view, size_t>;

ColumnNumbers NumberColumns(const std::vector<Row>& rows) {
  ColumnNumbers numbers;
  for (const Row& row : rows) {
    for (const auto& [key, cell] : row) numbers.emplace(key, 0);
  }
  for (const std::string_view key : kFirstColumns) numbers.erase(key);
  size_t number = std::size(kFirstColumns);
  for (auto& [key, place] : numbers) place = number++;
  number = 0;
  for (const std::string_view key : kFirstColumns) numbers[key] = number++;
  return numbers;
}

// Column by column rather than row by row, because the width of each must be
// known before the first line is written.
std::vector<Column> FillColumns(const std::vector<Row>& rows) {
  const lconv& locale = *std::localeconv();
  const ColumnNumbers numbers = NumberColumns(rows);
  std::vector<Column> columns(numbers.size());
  const auto put = [&](std::string_view key, size_t row, std::string text) {
    Column& column = columns[numbers.at(key)];
    column.width = std::max(column.width, WidthOf(text));
    column.cells[row] = std::move(text);
  };
  for (Column& column : columns) column.cells.resize(rows.size() + 1);
  for (const auto& [key, number] : numbers) put(key, 0, CleanText(key));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [key, cell] : rows[i]) {
      put(key, i + 1, CellText(cell, locale));
    }
  }
  return columns;
}

void AppendLine(const std::vector<Column>& columns, size_t row,
                std::string* table) {
  for (const Column& column : columns) {
    const std::string& text = column.cells[row];
    const std::string padding(column.width - WidthOf(text), ' ');
    // Only the names are aligned to the left.
    *table += &column == columns.data() ? text + padding : padding + text;
    *table += "  ";
  }
  *table += '\n';
}

}  // namespace

std::string LocalNumber(std::string_view number, const lconv& locale) {
  const size_t start = number.starts_with('-') ? 1 : 0;
  const size_t end =
      std::min(number.find_first_not_of("0123456789", start), number.size());
  std::string text(number.substr(0, end));
  // Each char of `grouping` is the size of a group, from the right; the last
  // one repeats, unless it is followed by CHAR_MAX.
  const char* group = locale.grouping;
  const bool grouped = *locale.thousands_sep != '\0';
  for (size_t at = end; grouped && *group > 0 && *group != CHAR_MAX;) {
    if (at - start <= static_cast<size_t>(*group)) break;
    at -= static_cast<size_t>(*group);
    text.insert(at, locale.thousands_sep);
    if (group[1] != '\0') ++group;
  }
  if (end < number.size() && number[end] == '.') {
    text += locale.decimal_point;
    text += number.substr(end + 1);
  } else {
    text += number.substr(end);  // "inf", or an exponent.
  }
  return text;
}

std::string TvmReport::ToText() const {
  return ReportTable(*this, /*sort=*/true, /*aggregate=*/true,
                     /*col_sums=*/true);
}

std::string ReportTable(const TvmReport& report, bool sort, bool aggregate,
                        bool col_sums) {
  const std::vector<Row> rows = RowsOf(report, sort, aggregate, col_sums);
  const std::vector<Column> columns = FillColumns(rows);
  std::string table;
  for (size_t i = 0; i <= rows.size(); ++i) AppendLine(columns, i, &table);
  table += "\nConfiguration\n-------------\n";
  for (const auto& [key, cell] : report.configuration) {
    table += CleanText(key) + ": " + CellText(cell, *std::localeconv()) + '\n';
  }
  return table;
}

}  // namespace nodewise
