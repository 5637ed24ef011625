#include "runtime/profile/tvm_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/check.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Making a report.

Cell Microseconds(const NodeTime& time) {
  return TvmReport::Duration{static_cast<double>(time.Duration()) / 1e3};
}

// "cpu0".
std::string DeviceKey(DLDevice device) {
  return DeviceTypeName(DeviceTypeOf(device)) +
         std::to_string(device.device_id);
}

// Adds "float32[1, 3]" to a list.
void AddShape(const GraphEntry& entry, std::string* list) {
  if (!list->empty()) *list += ", ";
  *list += ToString(entry.dtype) + "[";
  for (size_t i = 0; i < entry.shape.size(); ++i) {
    *list += fmt::format("{}{}", i == 0 ? "" : ", ", entry.shape[i]);
  }
  *list += "]";
}

// Returns the shapes in the graph, even if the node gets flattened tensors.
std::string ArgumentShapes(const Graph& graph, NodeId node) {
  std::string list;
  for (const EntryRef& input : graph.node(node).inputs) {
    AddShape(graph.entry(graph.EntryOf(input)), &list);
  }
  for (uint32_t i = 0; i < graph.OutputsOf(node); ++i) {
    AddShape(graph.entry(graph.EntryOf(node, i)), &list);
  }
  return list;
}

Row TotalOf(const std::string& device, const NodeTime& whole) {
  return {{std::string(kReportName), "Total"},
          {std::string(kReportDuration), Microseconds(whole)},
          {std::string(kReportCount), int64_t{1}},
          {std::string(kReportDevice), device}};
}

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

// Writing it.

std::string CsvCell(const Cell& cell) {
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  return std::visit(
      Overloaded{
          [&](TvmReport::Duration value) { return number(value.microseconds); },
          [&](TvmReport::Percent value) { return number(value.percent); },
          [&](TvmReport::Ratio value) { return number(value.ratio); },
          [](int64_t value) { return std::to_string(value); },
          // TVM quotes every string, but leaves quotes inside as they are.
          [](const std::string& value) { return CsvText(value, true); }},
      cell);
}

// TVM escapes nothing; a name with a quote in it makes its JSON invalid.
std::string JsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string JsonNumber(double value) {
  // Numbers that are not finite cannot come from a run, and JSON has none.
  return std::isfinite(value) ? fmt::format("{:.17f}", value) : "null";
}

std::string JsonCell(const Cell& cell) {
  const std::string value = std::visit(
      Overloaded{
          [](TvmReport::Duration v) { return JsonNumber(v.microseconds); },
          [](TvmReport::Percent v) { return JsonNumber(v.percent); },
          [](TvmReport::Ratio v) { return JsonNumber(v.ratio); },
          [](int64_t v) { return std::to_string(v); },
          [](const std::string& v) { return JsonText(v); }},
      cell);
  return fmt::format("{{\"{}\":{}}}", kReportCellKeys[cell.index()], value);
}

void AppendRow(const Row& row, std::string* json) {
  *json += '{';
  for (const auto& [key, cell] : row) {
    if (json->back() != '{') *json += ',';
    *json += JsonText(key) + ':' + JsonCell(cell);
  }
  *json += '}';
}

}  // namespace

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
  return absl::InvalidArgumentError(
      fmt::format("report: {} is a {}, expected {}", key,
                  kReportCellKeys[cell.index()], kind));
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
  for (uint32_t n = 0; n < count; ++n) {
    const std::string device = DeviceKey(device_of_node[n]);
    report->device_metrics.emplace(device, TotalOf(device, run.whole));
    if (graph.nodes[n].kind != GraphNode::Kind::kFunction) continue;
    Row row = CallOf(graph, NodeId{n}, run.nodes[n], device_of_node[n]);
    const auto duration = static_cast<double>(run.nodes[n].Duration());
    row[std::string(kReportPercent)] =
        TvmReport::Percent{longest > 0 ? duration / longest * 100 : 0};
    report->calls.push_back(std::move(row));
  }
  report->configuration = {{"Executor", "Graph"},
                           {"Number of threads", int64_t{threads}}};
  return report;
}

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
