#include "runtime/profile/tvm_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

Cell Microseconds(const NodeTime& time) {
  return TvmReport::Duration{static_cast<double>(time.Duration()) / 1e3};
}

std::string DeviceKey(DLDevice device) {
  return DeviceTypeName(DeviceTypeOf(device)) +
         std::to_string(device.device_id);
}

// Returns "float32[1, 3], ..." of what the node reads and makes: the shapes in
// the graph, even if the node gets flattened tensors.
std::string ArgumentShapes(const Graph& graph, NodeId node) {
  std::vector<EntryId> arguments = InputsIn(graph, node);
  for (const EntryId made : EntriesMadeBy(graph, node)) {
    arguments.push_back(made);
  }
  return JoinEntries(graph, arguments, ", ", [](const GraphEntry& entry) {
    return fmt::format("{}[{}]", ToString(entry.dtype),
                       absl::StrJoin(entry.shape, ", "));
  });
}

// TVM counts the whole run as one call on each device.
Row TotalOf(const std::string& device, const NodeTime& whole) {
  return {{std::string(kReportName), "Total"},
          {std::string(kReportDuration), Microseconds(whole)},
          {std::string(kReportCount), int64_t{1}},
          {std::string(kReportDevice), device}};
}

// Attributes whose names hold "layout", and the hash of the kernel, are columns
// of TVM's report if the compiler has left them in the graph.
Row CallOf(const Graph& graph, NodeId id, const NodeTime& time,
           DLDevice device) {
  const GraphNode& node = graph.node(id);
  Row row = {{std::string(kReportName), node.function},
             {std::string(kReportDuration), Microseconds(time)},
             {std::string(kReportCount), int64_t{1}},
             {std::string(kReportDevice), DeviceKey(device)},
             {std::string(kReportShapes), ArgumentShapes(graph, id)}};
  for (const auto& [key, value] : node.attrs) {
    if (key == "hash") row[std::string(kReportHash)] = value;
    if (key.find("layout") != std::string::npos) row[key] = value;
  }
  return row;
}

std::string CsvCell(const Cell& cell) {
  if (const double* const number = NumberOf(cell)) {
    return fmt::format("{:g}", *number);
  }
  if (const auto* count = std::get_if<int64_t>(&cell)) {
    return std::to_string(*count);
  }
  // TVM quotes every string, but leaves quotes inside as they are.
  return CsvText(std::get<std::string>(cell), true);
}

// TVM escapes nothing; a name with a quote in it makes its JSON invalid.
std::string JsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string JsonValue(const Cell& cell) {
  if (const double* const number = NumberOf(cell)) {
    // Numbers that are not finite cannot come from a run, and JSON has none.
    return std::isfinite(*number) ? fmt::format("{:.17f}", *number) : "null";
  }
  if (const auto* count = std::get_if<int64_t>(&cell)) {
    return std::to_string(*count);
  }
  return JsonText(std::get<std::string>(cell));
}

void AppendRow(const Row& row, std::string* json) {
  *json += '{';
  for (const auto& [key, cell] : row) {
    if (json->back() != '{') *json += ',';
    *json += fmt::format("{}:{{\"{}\":{}}}", JsonText(key),
                         kReportCellKeys[cell.index()], JsonValue(cell));
  }
  *json += '}';
}

}  // namespace

double* NumberOf(Cell* cell) {
  if (auto* duration = std::get_if<TvmReport::Duration>(cell)) {
    return &duration->microseconds;
  }
  if (auto* percent = std::get_if<TvmReport::Percent>(cell)) {
    return &percent->percent;
  }
  auto* const ratio = std::get_if<TvmReport::Ratio>(cell);
  return ratio != nullptr ? &ratio->ratio : nullptr;
}

// TVM's table reads these columns without a check of their kinds.
std::string_view ReportCellKey(std::string_view key) {
  if (key == kReportDuration) return "microseconds";
  for (const std::string_view text :
       {kReportName, kReportHash, kReportShapes, kReportDevice}) {
    if (key == text) return "string";
  }
  return "";
}

absl::Status CheckReportCell(std::string_view key, const Cell& cell) {
  const std::string_view kind = ReportCellKey(key);
  if (kind.empty() || kind == kReportCellKeys[cell.index()]) {
    return absl::OkStatus();
  }
  return InvalidArgument("report: {} is a {}, expected {}", key,
                         kReportCellKeys[cell.index()], kind);
}

Ref<TvmReport> MakeTvmReport(const Graph& graph, const TimedRun& run,
                             absl::Span<const DLDevice> device_of_node,
                             int threads) {
  const size_t count = graph.nodes.size();
  NODEWISE_CHECK(run.nodes.size() == count);
  NODEWISE_CHECK(device_of_node.size() == count);
  auto report = MakeRef<TvmReport>();
  // TVM starts one timer for each device before the first node and stops it
  // after the last, so each total, and with it the longest, is the time of the
  // run.
  const auto longest = static_cast<double>(run.whole.Duration());
  for (const NodeId node : AllNodes(graph)) {
    const DLDevice place = device_of_node[Index(node)];
    const std::string device = DeviceKey(place);
    report->device_metrics.emplace(device, TotalOf(device, run.whole));
    if (!graph.IsFunction(node)) continue;
    const NodeTime& time = run.nodes[Index(node)];
    Row row = CallOf(graph, node, time, place);
    const auto duration = static_cast<double>(time.Duration());
    row[std::string(kReportPercent)] =
        TvmReport::Percent{longest > 0 ? duration / longest * 100 : 0};
    report->calls.push_back(std::move(row));
  }
  report->configuration = {{"Executor", "Graph"},
                           {"Number of threads", int64_t{threads}}};
  return report;
}

// The columns are all keys that any row has; a row without one leaves its cell
// empty.
std::string ReportCsv(const TvmReport& report) {
  std::set<std::string_view> keys;
  for (const Row& row : report.calls) {
    for (const auto& [key, cell] : row) keys.insert(key);
  }
  std::string csv;
  for (const std::string_view key : keys) {
    if (key != *keys.begin()) csv += ',';
    csv += CsvText(key);
  }
  csv += '\n';
  for (const Row& row : report.calls) {
    // Both are sorted, so one walk over the keys finds every cell.
    auto next = row.begin();
    for (const std::string_view key : keys) {
      if (key != *keys.begin()) csv += ',';
      if (next == row.end() || next->first != key) continue;
      csv += CsvCell(next->second);
      ++next;
    }
    csv += '\n';
  }
  return csv;
}

// Written by hand in one line, with seventeen decimals, as TVM does.
std::string ReportJson(const TvmReport& report) {
  std::string json = "{\"calls\":[";
  for (const Row& row : report.calls) {
    if (json.back() != '[') json += ',';
    AppendRow(row, &json);
  }
  json += "],\"device_metrics\":{";
  for (const auto& [device, row] : report.device_metrics) {
    if (json.back() != '{') json += ',';
    json += JsonText(device) + ':';
    AppendRow(row, &json);
  }
  json += "},\"configuration\":";
  AppendRow(report.configuration, &json);
  return json + '}';
}

}  // namespace nodewise
