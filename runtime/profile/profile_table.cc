#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>
#include <numeric>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

// Copies the characters that are UTF-8 and whose first byte is kept; what
// stands for each other byte is `stand_in` of it.
template <typename Keeps, typename StandIn>
std::string CopyCharacters(std::string_view text, Keeps keeps,
                           StandIn stand_in) {
  std::string copy;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = CharacterBytes(text.substr(i));
    const auto first = static_cast<uint8_t>(text[i]);
    if (bytes > 0 && keeps(first)) {
      copy += text.substr(i, bytes);
    } else {
      copy += stand_in(first);
    }
    i += std::max<size_t>(bytes, 1);
  }
  return copy;
}

}  // namespace

// Summed in the order of the runs, so that the figures of one profile never
// differ in the last digit.
double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

// A run whose list of times is too short for the node says nothing of it.
std::vector<double> InPlaceUs(const Profile& profile, NodeId node) {
  std::vector<double> times;
  for (const TimedRun& run : profile.runs) {
    if (Index(node) >= run.nodes.size()) continue;
    times.push_back(run.nodes[Index(node)].Duration() / 1e3);
  }
  return times;
}

// std::to_chars writes the fewest digits that read back as the number, as
// repr() does; the two differ in where exponents begin and in the final ".0".
std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[64];
  const auto [end, error] = std::to_chars(
      text, text + sizeof(text), value,
      fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string written(text, end);
  if (fixed && written.find('.') == std::string::npos) written += ".0";
  return written;
}

// Going through decimal text rounds the exact binary value, which multiplying
// and dividing by a power of ten would not.
double RoundTo(double value, int digits) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{:.{}f}", value, digits);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

// Reports must stay one line a node even if a file names its nodes with line
// breaks or terminal escapes.
std::string OneLine(std::string_view name) {
  const std::string_view shown = Shortened(name);
  const std::string line = CopyCharacters(
      shown, [](uint8_t first) { return first >= 0x20 && first != 0x7F; },
      [](uint8_t byte) { return fmt::format("\\x{:02x}", byte); });
  return shown.size() < name.size() ? line + "..." : line;
}

// NUL is replaced too, since it would end the text for hosts written in C.
std::string CleanUtf8(std::string_view text) {
  return CopyCharacters(
      text, [](uint8_t first) { return first != 0; },
      [](uint8_t) { return "\xEF\xBF\xBD"; });
}

std::vector<EntryId> InputsIn(const Graph& graph, NodeId node) {
  std::vector<EntryId> entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    entries.push_back(graph.EntryOf(ref));
  }
  return entries;
}

namespace {

constexpr double kNsPerUs = 1e3;

// Returns the percentile by nearest rank: the minimum value that `percent` of
// the values do not exceed.
double PercentileOf(const std::vector<double>& sorted, size_t percent) {
  const size_t rank = (percent * sorted.size() + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void AddSpread(const Profile& profile, NodeProfile* figures) {
  std::vector<double> times = InPlaceUs(profile, figures->node);
  if (times.empty()) return;
  figures->mean_us = MeanOf(times);
  // By the definition and in a second pass: sums of squares would lose all
  // digits for long, steady times.
  double squares = 0;
  for (const double time : times) {
    squares += (time - figures->mean_us) * (time - figures->mean_us);
  }
  figures->stddev_us = std::sqrt(squares / times.size());
  std::sort(times.begin(), times.end());
  figures->min_us = times.front();
  figures->max_us = times.back();
  figures->median_us = MedianOf(times);
  figures->p90_us = PercentileOf(times, 90);
  figures->p99_us = PercentileOf(times, 99);
}

// This is the least that the node must move; caches and padding may make it
// more.
void AddTraffic(const GraphIndex& index, NodeProfile* figures) {
  if (index.IsFree(figures->node)) return;
  const Graph& graph = index.graph();
  std::vector<EntryId> read = InputsIn(graph, figures->node);
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  for (const EntryId entry : read) figures->bytes_read += index.BytesOf(entry);
  for (const EntryId entry : EntriesMadeBy(graph, figures->node)) {
    figures->bytes_written += index.BytesOf(entry);
  }
  if (figures->median_us <= 0) return;
  const auto bytes =
      static_cast<double>(figures->bytes_read + figures->bytes_written);
  figures->gb_per_s = bytes / (figures->median_us * kNsPerUs);
}

// Adds the slot's bytes at the first of the nodes that need it, and takes them
// off after the last, as often as it is needed anew.
void AddSlotChanges(const GraphIndex& index, uint32_t slot,
                    std::vector<uint64_t>* changes) {
  const uint64_t bytes = index.plan().slots[slot].bytes;
  const int64_t last_node = static_cast<int64_t>(changes->size()) - 2;
  int64_t counted_until = -1;
  for (const EntryId tensor : index.TensorsIn(slot)) {
    const Lifetime& life = index.LifetimeOf(tensor);
    const bool is_input = life.written == Lifetime::kBeforeTheRun;
    const int64_t first = std::max(life.written, counted_until + 1);
    const int64_t last =
        is_input ? last_node
                 : std::min(std::max(life.written, life.last_read), last_node);
    if (first > last) continue;
    // Sums that wrap come out right.
    (*changes)[static_cast<size_t>(first)] += bytes;
    (*changes)[static_cast<size_t>(last) + 1] -= bytes;
    counted_until = last;
  }
}

// Returns by node the bytes of the slots that are needed while it runs, and 0
// after the last. Each slot is added where it begins to be needed and taken off
// behind where it ends, so one running sum over the nodes gives the bytes,
// without a pass over all slots for each node.
std::vector<uint64_t> LiveBytes(const GraphIndex& index) {
  std::vector<uint64_t> changes(index.graph().nodes.size() + 1);
  for (uint32_t slot = 0; slot < index.plan().slots.size(); ++slot) {
    AddSlotChanges(index, slot, &changes);
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return changes;
}

// Returns when each of the rows ran in one run. Rows that took no time are laid
// where the one before ended, so that every row has a place on the clock.
std::vector<NodeTime> ClockOf(const TimedRun& run,
                              const ProfileSummary& summary) {
  std::vector<NodeTime> clock;
  int64_t now = run.whole.start_ns;
  for (const NodeProfile& figures : summary.nodes) {
    const size_t node = Index(figures.node);
    const bool ran = node < run.nodes.size() && run.nodes[node].end_ns != 0;
    clock.push_back(ran ? run.nodes[node] : NodeTime{now, now});
    now = clock.back().end_ns;
  }
  return clock;
}

// Each run is laid so that it begins where the first did, and the starts and
// ends are averaged. A mean of raw clock readings would mean nothing, for the
// runs follow each other.
void AddClock(const Profile& profile, ProfileSummary* summary) {
  if (profile.runs.empty()) return;
  const int64_t begin = profile.runs[0].whole.start_ns;
  std::vector<double> starts(summary->nodes.size()), ends(starts);
  for (const TimedRun& run : profile.runs) {
    const std::vector<NodeTime> clock = ClockOf(run, *summary);
    for (size_t i = 0; i < clock.size(); ++i) {
      starts[i] += static_cast<double>(clock[i].start_ns - run.whole.start_ns);
      ends[i] += static_cast<double>(clock[i].end_ns - run.whole.start_ns);
      if (&run != &profile.runs[0]) continue;
      summary->nodes[i].first_start_ns = clock[i].start_ns;
      summary->nodes[i].first_end_ns = clock[i].end_ns;
    }
  }
  const auto runs = static_cast<double>(profile.runs.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    summary->nodes[i].mean_start_ns = begin + std::llround(starts[i] / runs);
    summary->nodes[i].mean_end_ns = begin + std::llround(ends[i] / runs);
  }
}

// The share is that of the sum of the rows, not of the run: shares of a table
// should add up to what the table shows.
void AddRuns(const Profile& profile, ProfileSummary* summary) {
  for (const NodeProfile& node : summary->nodes) {
    summary->sum_us += node.mean_us;
  }
  for (NodeProfile& node : summary->nodes) {
    if (summary->sum_us <= 0) break;
    node.percent = node.mean_us / summary->sum_us * 100;
  }
  std::vector<double> runs;
  for (const TimedRun& run : profile.runs) {
    runs.push_back(run.whole.Duration() / kNsPerUs);
  }
  summary->run_us = MeanOf(runs);
  summary->rest_us = summary->run_us - summary->sum_us;
  if (profile.plain_ns.empty()) return;
  std::vector<double> plain;
  for (const int64_t ns : profile.plain_ns) plain.push_back(ns / kNsPerUs);
  std::sort(plain.begin(), plain.end());
  summary->plain_us = MeanOf(plain);
  summary->plain_min_us = plain.front();
  summary->plain_median_us = MedianOf(plain);
}

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

// Returns a moment of the wall clock as HH:MM:SS.ffffff of local time.
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

// The columns of names.
constexpr size_t kNameColumn = 0;
constexpr size_t kOpsColumn = 1;

// Leaves out the functions' names where all are those of their nodes.
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

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

// Figures of single nodes come first; those of the clock and of the runs need
// all of them.
ProfileSummary SummariseProfile(const GraphIndex& index,
                                const Profile& profile) {
  ProfileSummary summary;
  const std::vector<uint64_t> live = LiveBytes(index);
  for (const NodeId node : AllNodes(index.graph())) {
    if (!index.graph().IsFunction(node)) continue;
    NodeProfile figures;
    figures.node = node;
    figures.live_bytes = live[Index(node)];
    AddSpread(profile, &figures);
    if (Index(node) < profile.isolated.size()) {
      for (const double seconds : profile.isolated[Index(node)]) {
        figures.isolated_us.push_back(seconds * 1e6);
      }
    }
    AddTraffic(index, &figures);
    summary.nodes.push_back(std::move(figures));
  }
  // Without function nodes the inputs are all there is.
  summary.peak_live_bytes = *std::max_element(live.begin(), live.end());
  AddClock(profile, &summary);
  AddRuns(profile, &summary);
  return summary;
}

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
    // Then something else ran now and then, and no mean says much.
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
