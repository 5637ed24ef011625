#pragma once

#include <clocale>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/registry.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// A named function returns this.
using Result = absl::StatusOr<Value>;

// What TVM's profiler reports about one run, in TVM's forms. A report does not
// change once it is made, so any thread may read it.
class TvmReport final : public Object {
 public:
  struct Duration {
    double microseconds = 0;
  };
  struct Percent {
    double percent = 0;
  };
  // Ratios have no sum: where rows are joined, they are averaged.
  struct Ratio {
    double ratio = 0;
  };
  using Cell = std::variant<Duration, Percent, Ratio, int64_t, std::string>;
  // Keys are in the order of their bytes. TVM's order is that of a hash table.
  using Row = std::map<std::string, Cell, std::less<>>;

  TvmReport() : Object(kReportType) {}
  std::string_view object_type() const override {
    return "runtime.profiling.Report";
  }
  // Returns the table, as `print(report)` shows it.
  std::string ToText() const override;
  std::vector<Attribute> Attributes() const override;

  std::vector<Row> calls;
  std::map<std::string, Row, std::less<>> device_metrics;
  Row configuration;
};

// The JSON key of a cell's value, by the index of the variant.
inline constexpr std::string_view kReportCellKeys[] = {
    "microseconds", "percent", "ratio", "count", "string"};

// Returns the number of a duration, percent or ratio, null for other cells.
double* NumberOf(TvmReport::Cell* cell);
inline const double* NumberOf(const TvmReport::Cell& cell) {
  return NumberOf(const_cast<TvmReport::Cell*>(&cell));
}

// Keys that mean something to the table.
inline constexpr std::string_view kReportName = "Name";
inline constexpr std::string_view kReportDuration = "Duration (us)";
inline constexpr std::string_view kReportPercent = "Percent";
inline constexpr std::string_view kReportDevice = "Device";
inline constexpr std::string_view kReportCount = "Count";
inline constexpr std::string_view kReportShapes = "Argument Shapes";
inline constexpr std::string_view kReportHash = "Hash";

// Returns the kind that a value under `key` must be for the table, where TVM
// would abort otherwise: one of kReportCellKeys, or "" if it may be anything.
std::string_view ReportCellKey(std::string_view key);
// Fails with kInvalidArgument if the cell is not of the kind that its key
// needs.
absl::Status CheckReportCell(std::string_view key, const TvmReport::Cell& cell);

// Makes the report of a run: a call for each function node in graph order,
// __nop included. A device's total is the time of the whole run, as TVM
// measures it.
// REQUIRES: there are one device and one time for each node.
Ref<TvmReport> MakeTvmReport(const Graph& graph, const TimedRun& run,
                             absl::Span<const DLDevice> device_of_node,
                             int threads);

// Returns a table and the configuration below it, with a final newline. `sort`
// puts the longest first, `aggregate` makes one row of the calls of one kernel
// with the same shapes on the same device, `col_sums` adds a row of sums.
std::string ReportTable(const TvmReport& report, bool sort, bool aggregate,
                        bool col_sums);
// Returns the calls, one on each line.
std::string ReportCsv(const TvmReport& report);
// Returns the whole report as valid JSON on one line, with any names.
std::string ReportJson(const TvmReport& report);

// Reads what ReportJson() or TVM 0.9 or later write. Fails with kDataLoss, with
// a line and column if it is not JSON, else with a JSON path; also for a text
// so large, or so lopsided, that its table would fill the memory.
absl::StatusOr<Ref<TvmReport>> ParseReport(std::string_view json);

// Returns a number that "%f" wrote in the form of a locale: with its decimal
// point, and its separators between groups of digits before that.
std::string LocalNumber(std::string_view number, const lconv& locale);

// Returns the named functions that make reports, take them apart, read them and
// print them, which TVM's Python package calls: runtime.profiling.AsTable and
// so on.
absl::Span<const FunctionRow> ProfilingFunctions();
// Fails with kUnimplemented if argument `index` is an array of metric
// collectors that is not empty; TVM's Python package passes an empty one, null
// or nothing.
absl::Status RefuseCollectors(PackedArgs args, int index);

}  // namespace nodewise
