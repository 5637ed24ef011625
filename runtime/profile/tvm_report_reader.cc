// Reads the JSON of TVM's reports, which may come from anywhere.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "runtime/profile/profile_text.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {
namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

constexpr std::string_view kFileName = "report";
// A graph of 10000 nodes makes a report of some 5 MB and a table of the same
// size. The limits also keep the parser's error messages short: it spells out
// control characters.
constexpr size_t kMostBytes = size_t{64} << 20;
// A table is as wide as its widest cells, on every line: a small text could ask
// for one of any size.
constexpr size_t kMostTableBytes = size_t{128} << 20;

// The meaning of an object or array of the text.
enum class Level { kReport, kCalls, kDevices, kRow, kCell };

constexpr std::string_view kReportParts[] = {"calls", "device_metrics",
                                             "configuration"};

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string_view Behind(std::string_view mark, std::string_view text) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

// Roughly the memory that a table of the report takes.
class TableSize {
 public:
  void AddRow() { ++rows_; }
  void AddCell(const std::string& key, size_t width) {
    size_t& column = columns_[key];
    const size_t wanted =
        std::max({column, key.size(), width, sizeof(std::string)});
    line_ += wanted - column;
    column = wanted;
  }
  size_t bytes() const { return rows_ * line_; }

 private:
  std::map<std::string, size_t> columns_;
  size_t rows_ = 1;
  size_t line_ = 256;  // The columns that are always there.
};

// An upper limit: a number may have 309 digits, and separators between them.
size_t NumberWidth(double value) { return std::fabs(value) < 1e18 ? 40 : 420; }

// Nlohmann's SAX interface. It knows what may come next at every point, so
// nothing is deeper than a report is. Returning false ends the parse.
class ReportEvents {
 public:
  ReportEvents(std::string_view text, TvmReport* report)
      : text_(text), report_(*report) {}

  const Diagnostic& diagnostic() const { return diagnostic_; }

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a boolean"); }
  bool number_integer(int64_t value) { return Integer(value); }
  bool number_unsigned(uint64_t value) {
    if (value > INT64_MAX) return Number(static_cast<double>(value));
    return Integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return Number(value); }
  bool string(std::string& value) {
    if (!InCell() || stack_.back().key != "string") {
      return Unexpected("a string");
    }
    const size_t width = value.size();
    return SetCell(std::move(value), width);
  }
  bool binary(nlohmann::json::binary_t&) { return false; }

  bool start_object(size_t) {
    if (stack_.empty()) return Open(Level::kReport);
    if (InCell() || IsAtPart("calls")) return Unexpected("an object");
    if (stack_.back().level == Level::kRow) return Open(Level::kCell);
    if (IsAtPart("device_metrics")) return Open(Level::kDevices);
    row_ = NextRow();
    size_.AddRow();
    return Open(Level::kRow);
  }

  bool start_array(size_t) {
    return IsAtPart("calls") ? Open(Level::kCalls) : Unexpected("an array");
  }

  bool key(std::string& name) {
    Frame& top = stack_.back();
    top.key = name;
    if (!top.seen.insert(name).second) return Fail("stands here twice");
    if (top.level == Level::kReport && !Contains(kReportParts, name)) {
      return Fail("is not a part of a report",
                  "calls, device_metrics or configuration");
    }
    if (top.level != Level::kCell) return true;
    if (top.seen.size() > 1) return Fail("is a second value", "one");
    if (!Contains(kReportCellKeys, name)) {
      return Fail("is not a kind of value",
                  "microseconds, percent, ratio, count or string");
    }
    return true;
  }

  bool end_object() {
    if (InCell() && stack_.back().seen.empty()) {
      return Fail("an empty object", "one such as {\"count\":1}");
    }
    return Close();
  }

  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...":
    // we name the place ourselves.
    std::string_view reason = Behind("] ", error.what());
    if (reason.starts_with("parse error")) reason = Behind(": ", reason);
    const size_t offset =
        std::min(position > 0 ? position - 1 : 0, text_.size());
    const std::string_view before = text_.substr(0, offset);
    const size_t line_start = before.rfind('\n') + 1;  // 0 if there is none.
    diagnostic_.line =
        static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    diagnostic_.column = offset - line_start + 1;
    diagnostic_.found = fmt::format("not JSON: {}", Shortened(reason));
    return false;
  }

 private:
  struct Frame {
    Level level;
    std::string key;   // The last key, which the next value belongs to.
    size_t index = 0;  // The next value's index in an array.
    std::set<std::string> seen;  // All keys of an object.
  };

  bool InCell() const {
    return !stack_.empty() && stack_.back().level == Level::kCell;
  }
  bool IsAtPart(std::string_view part) const {
    return !stack_.empty() && stack_.back().level == Level::kReport &&
           stack_.back().key == part;
  }
  std::string Path() const {
    std::string path;
    for (const Frame& frame : stack_) {
      if (frame.level == Level::kCalls) {
        path += fmt::format("/{}", frame.index);
      } else if (!frame.key.empty()) {
        path += '/';
        path += Shortened(frame.key);
      }
    }
    return path;
  }

  std::string Expected() const {
    if (IsAtPart("calls")) return "an array";
    if (!InCell()) {
      const bool in_row = !stack_.empty() && stack_.back().level == Level::kRow;
      return in_row ? "an object such as {\"count\":1}" : "an object";
    }
    const std::string& kind = stack_.back().key;
    if (kind == "string") return "a string";
    return kind == "count" ? "a 64-bit integer" : "a number";
  }

  bool Fail(std::string found, std::string expected = "") {
    diagnostic_.path = Path();
    diagnostic_.found = std::move(found);
    diagnostic_.expected = std::move(expected);
    return false;
  }

  bool Unexpected(const char* found) { return Fail(found, Expected()); }
  bool Open(Level level) {
    stack_.push_back({level, "", 0, {}});
    return true;
  }

  bool Close() {
    stack_.pop_back();
    if (size_.bytes() > kMostTableBytes) {
      return Fail("from here on, a table of the report is too large",
                  fmt::format("at most {} bytes", kMostTableBytes));
    }
    if (!stack_.empty()) ++stack_.back().index;
    return true;
  }

  Row* NextRow() {
    const Frame& top = stack_.back();
    if (top.level == Level::kCalls) return &report_.calls.emplace_back();
    if (top.level == Level::kDevices) return &report_.device_metrics[top.key];
    return &report_.configuration;
  }

  bool Integer(int64_t value) {
    if (!InCell() || stack_.back().key != "count") {
      return Number(static_cast<double>(value));
    }
    return SetCell(value, NumberWidth(static_cast<double>(value)));
  }

  bool Number(double value) {
    if (!InCell()) return Unexpected("a number");
    const std::string& kind = stack_.back().key;
    const size_t width = NumberWidth(value);
    if (kind == "microseconds")
      return SetCell(TvmReport::Duration{value}, width);
    if (kind == "percent") return SetCell(TvmReport::Percent{value}, width);
    if (kind == "ratio") return SetCell(TvmReport::Ratio{value}, width);
    return Unexpected("a number");
  }

  bool SetCell(Cell cell, size_t width) {
    const std::string& key = stack_[stack_.size() - 2].key;
    const std::string_view kind = ReportCellKey(key);
    if (!kind.empty() && kReportCellKeys[cell.index()] != kind) {
      return Fail("is of another kind",
                  kind == "string" ? "a string" : "microseconds");
    }
    size_.AddCell(key, width);
    row_->insert_or_assign(key, std::move(cell));
    return true;
  }

  std::string_view text_;
  TvmReport& report_;
  std::vector<Frame> stack_;
  Row* row_ = nullptr;
  TableSize size_;
  Diagnostic diagnostic_;
};

absl::Status DataLoss(Diagnostic diagnostic) {
  diagnostic.file = kFileName;
  return absl::DataLossError(diagnostic.ToString());
}

}  // namespace

absl::StatusOr<Ref<TvmReport>> ParseReport(std::string_view json) {
  if (json.size() > kMostBytes) {
    Diagnostic diagnostic;
    diagnostic.found = fmt::format("has {} bytes", json.size());
    diagnostic.expected = fmt::format("at most {}", kMostBytes);
    return DataLoss(std::move(diagnostic));
  }
  auto report = MakeRef<TvmReport>();
  ReportEvents events(json, report.get());
  const bool is_report = nlohmann::json::sax_parse(
      json.begin(), json.end(), &events, nlohmann::json::input_format_t::json,
      /*strict=*/true, /*ignore_comments=*/false);
  if (!is_report) return DataLoss(events.diagnostic());
  return report;
}

}  // namespace nodewise
