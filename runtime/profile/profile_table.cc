#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

// A line of the table. Rows are sorted by the time as it is printed, as TVM
// sorts them, so that what looks equal stays in order.
struct TableRow {
  double time = 0;
  std::vector<std::string> cells;
};

// A node without outputs, which a graph may have, gets a dash so that its row
// keeps its columns.
std::string ShapeOfOutput(const Graph& graph, NodeId node, uint32_t output) {
  if (output >= graph.OutputsOf(node)) return "-";
  return ShapeToString(graph.entry(graph.EntryOf(node, output)).shape);
}

std::string ClockText(int64_t wall_us) {
  const std::time_t seconds = wall_us / 1000000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:06}", local.tm_hour, local.tm_min,
                     local.tm_sec, wall_us % 1000000);
}

// Lays rows one after the other on a clock of whole microseconds. Rounding
// alone breaks one of two promises: rounded down, a row of 14.78 us may seem to
// take 14; with its end rounded up, the next one may seem to start before it
// ends. So each row takes at least its time, and moves those that follow.
//
// Times are rounded before they are sorted and laid out, so that what the table
// shows is consistent in itself.
std::vector<TableRow> ClockRows(const Graph& graph,
                                const ProfileSummary& summary,
                                const Profile& profile) {
  const int64_t wall_minus_monotonic_ns =
      profile.wall_ns - profile.monotonic_ns;
  const auto wall_us = [&](int64_t monotonic_ns) {
    return (monotonic_ns + wall_minus_monotonic_ns) / 1000;
  };
  std::vector<TableRow> rows;
  int64_t end = 0;  // The end of the row before.
  for (const NodeProfile& figures : summary.nodes) {
    const GraphNode& node = graph.node(figures.node);
    const double time = RoundTo(figures.mean_us, 2);
    const int64_t start = std::max(wall_us(figures.mean_start_ns), end);
    end = std::max(wall_us(figures.mean_end_ns),
                   start + static_cast<int64_t>(std::ceil(time)));
    const auto clock = [&](int64_t us) {
      return profile.runs.empty() ? "-" : ClockText(us);
    };
    rows.push_back(
        {time,
         {OneLine(node.name), OneLine(node.function), PythonFloat(time),
          PythonFloat(RoundTo(figures.percent, 2)), clock(start), clock(end),
          ShapeOfOutput(graph, figures.node, 0),
          std::to_string(node.inputs.size()),
          std::to_string(graph.OutputsOf(figures.node))}});
  }
  return rows;
}

std::string PythonList(const std::vector<double>& values) {
  const auto write = [](std::string* list, double value) {
    *list += PythonFloat(RoundTo(value, 3));
  };
  return "[" + absl::StrJoin(values, ", ", write) + "]";
}

// Makes the rows and adds up the nodes' times, each once however many rows it
// has.
std::vector<TableRow> MeasurementRows(const Graph& graph,
                                      const ProfileSummary& summary,
                                      const Profile& profile, double* total) {
  std::vector<std::vector<double>> measured;
  *total = 0;
  for (const NodeProfile& figures : summary.nodes) {
    // TVM times every node by itself before it prints this table; the runs
    // stand in where that was not asked for.
    measured.push_back(profile.isolated.empty()
                           ? InPlaceUs(profile, figures.node)
                           : figures.isolated_us);
    *total += MeanOf(measured.back());
  }
  std::vector<TableRow> rows;
  for (size_t i = 0; i < measured.size(); ++i) {
    const NodeId id = summary.nodes[i].node;
    const GraphNode& node = graph.node(id);
    const double mean = MeanOf(measured[i]);
    const double time = RoundTo(mean, 3);
    const double percent = *total > 0 ? mean / *total * 100 : 0;
    for (uint32_t o = 0; o < graph.OutputsOf(id); ++o) {
      rows.push_back(
          {time,
           {OneLine(node.name), OneLine(node.function), PythonFloat(time),
            PythonFloat(RoundTo(percent, 3)), ShapeOfOutput(graph, id, o),
            std::to_string(node.inputs.size()),
            std::to_string(graph.OutputsOf(id)), PythonList(measured[i])}});
    }
  }
  return rows;
}

constexpr size_t kNameColumn = 0;
constexpr size_t kOpsColumn = 1;

void DropRepeatedOps(std::vector<std::string>* header,
                     std::vector<TableRow>* rows) {
  for (const TableRow& row : *rows) {
    if (row.cells[kNameColumn] != row.cells[kOpsColumn]) return;
  }
  header->erase(header->begin() + kOpsColumn);
  for (TableRow& row : *rows) row.cells.erase(row.cells.begin() + kOpsColumn);
}

// Without a limit every cell is padded, the last one too, which is how TVM
// prints it; with one, blanks at the end could wrap the line of a terminal.
std::string Layout(const std::vector<std::string>& header,
                   const std::vector<TableRow>& rows, size_t line_width) {
  std::vector<size_t> widths;
  std::vector<std::string> rule;
  for (size_t c = 0; c < header.size(); ++c) {
    rule.emplace_back(header[c].size(), '-');
    widths.push_back(header[c].size());
    for (const TableRow& row : rows) {
      widths[c] = std::max(widths[c], WidthOf(row.cells[c]));
    }
  }
  FitColumns(line_width, &widths);
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    if (!text.empty()) text += "\n";
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = CutInMiddle(cells[c], widths[c]);
      text += cell;
      if (line_width > 0 && c + 1 == cells.size()) break;
      text.append(widths[c] + 2 - WidthOf(cell), ' ');
    }
  };
  add_line(header);
  add_line(rule);
  for (const TableRow& row : rows) add_line(row.cells);
  return text;
}

}  // namespace

std::string ProfileTable(const Graph& graph, const ProfileSummary& summary,
                         const Profile& profile, const TableOptions& options) {
  const bool clock = options.layout == TableLayout::kClock;
  std::vector<std::string> header =
      clock ? std::vector<std::string>{"Node Name", "Ops",        "Time(us)",
                                       "Time(%)",   "Start Time", "End Time",
                                       "Shape",     "Inputs",     "Outputs"}
            : std::vector<std::string>{
                  "Node Name", "Ops",    "Time(us)", "Time(%)",
                  "Shape",     "Inputs", "Outputs",  "Measurements(us)"};
  double total = 0;
  std::vector<TableRow> rows =
      clock ? ClockRows(graph, summary, profile)
            : MeasurementRows(graph, summary, profile, &total);
  if (options.sort_by_time) {
    std::ranges::stable_sort(rows, std::greater(), &TableRow::time);
  }
  const size_t line_width = clock ? options.line_width : 0;
  if (line_width > 0) DropRepeatedOps(&header, &rows);
  const size_t all = rows.size();
  if (options.max_rows > 0 && options.max_rows < all) {
    rows.resize(options.max_rows);
  }
  const size_t left_out = all - rows.size();
  // TVM adds this row only to a sorted table. It stands for no single node, so
  // it is neither sorted nor counted.
  if (!clock && options.sort_by_time) {
    rows.push_back({0,
                    {"Total_time", "-", PythonFloat(RoundTo(total, 3)), "-",
                     "-", "-", "-", "-"}});
  }
  std::string text = Layout(header, rows, line_width);
  if (left_out > 0) {
    text +=
        fmt::format("\n({} more row{})", left_out, left_out == 1 ? "" : "s");
  }
  return text;
}

// Every line says which figure it is and how it was made, because the three
// runs that it compares are easily taken for each other.
std::string ProfileFooter(const ProfileSummary& summary,
                          const Profile& profile) {
  const auto percent = [](double part, double whole) {
    return whole > 0 ? part / whole * 100 : 0;
  };
  std::string text = fmt::format(
      "nodes      {:>12.2f} us  sum of the means of {} nodes\n"
      "debug run  {:>12.2f} us  mean of {}\n"
      "rest       {:>12.2f} us  {:.2f} % of the debug run, in no node",
      summary.sum_us, summary.nodes.size(), summary.run_us, profile.runs.size(),
      summary.rest_us, percent(summary.rest_us, summary.run_us));
  if (profile.plain_ns.empty()) {
    text += "\nplain run             -     not measured";
  } else {
    text += fmt::format(
        "\nplain run  {:>12.2f} us  median of {}; min {:.2f}, mean {:.2f}",
        summary.plain_median_us, profile.plain_ns.size(), summary.plain_min_us,
        summary.plain_us);
    const double cost = summary.run_us - summary.plain_us;
    text += fmt::format(
        "\ncost       {:>12.2f} us  {:.2f} % of the plain run, by the means",
        cost, percent(cost, summary.plain_us));
    // A mean so far above the median says that something else ran now and then.
    constexpr double kNoisy = 1.2;
    if (summary.plain_us > kNoisy * summary.plain_median_us) {
      text += fmt::format(
          "\nnoise      the mean of the plain runs is {:.2f} times their "
          "median: the machine\n           was busy, and means say little; "
          "more runs on a quiet one say more",
          summary.plain_us / summary.plain_median_us);
    }
  }
  constexpr double kMebibyte = 1024 * 1024;
  text += fmt::format(
      "\nmemory     {} bytes ({:.2f} MiB) needed at most at once, by the "
      "storage plan",
      summary.peak_live_bytes,
      static_cast<double>(summary.peak_live_bytes) / kMebibyte);
  for (const std::string& note : profile.notes) {
    text += "\nnote       " + OneLine(note);
  }
  return text;
}

}  // namespace nodewise
