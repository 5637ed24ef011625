#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile_table.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

// Returns the count at a node, where the counter may not have been read.
double CountAt(const NodeCounts& counts, NodeId node) {
  if (Index(node) < counts.by_node.size()) return counts.by_node[Index(node)];
  return std::numeric_limits<double>::quiet_NaN();
}

// --- CSV ---

std::string Number(double value) {
  return std::isfinite(value) ? PythonFloat(value) : "";
}

std::string Numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    if (!text.empty()) text += "; ";
    text += Number(value);
  }
  return text;
}

std::string Shapes(const Graph& graph, NodeId node) {
  std::string text;
  for (uint32_t o = 0; o < graph.OutputsOf(node); ++o) {
    if (o > 0) text += "; ";
    text += ShapeToString(graph.entry(graph.EntryOf(node, o)).shape);
  }
  return text;
}

void AddLine(const std::vector<std::string>& cells, std::string* text) {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) *text += ',';
    *text += cells[i];
  }
  *text += '\n';
}

std::vector<std::string> CsvCells(const Graph& graph, const Profile& profile,
                                  const NodeProfile& figures) {
  const GraphNode& node = graph.node(figures.node);
  const bool isolated = !figures.isolated_us.empty();
  std::vector<std::string> cells = {
      std::to_string(Index(figures.node)),
      CsvText(node.name),
      CsvText(node.function),
      std::to_string(node.inputs.size()),
      std::to_string(graph.OutputsOf(figures.node)),
      CsvText(Shapes(graph, figures.node)),
      Number(figures.mean_us),
      Number(figures.min_us),
      Number(figures.median_us),
      Number(figures.p90_us),
      Number(figures.p99_us),
      Number(figures.max_us),
      Number(figures.stddev_us),
      Number(figures.percent),
      Numbers(InPlaceUs(profile, figures.node)),
      std::to_string(figures.first_start_ns),
      std::to_string(figures.first_end_ns),
      isolated ? Number(MeanOf(figures.isolated_us)) : "",
      Numbers(figures.isolated_us),
      std::to_string(figures.bytes_read),
      std::to_string(figures.bytes_written),
      Number(figures.gb_per_s),
      std::to_string(figures.live_bytes)};
  for (const NodeCounts& counts : profile.counters) {
    cells.push_back(Number(CountAt(counts, figures.node)));
  }
  return cells;
}

// --- JSON ---

// Returns the start and end of a node in each run, and puts the end into `now`,
// by run. A node that takes no time lies where the one before it ended.
Json IntervalsJson(const Profile& profile, NodeId node,
                   std::vector<int64_t>* now) {
  Json intervals = Json::array();
  for (size_t r = 0; r < profile.runs.size(); ++r) {
    const TimedRun& run = profile.runs[r];
    if (Index(node) >= run.nodes.size()) continue;
    const NodeTime& time = run.nodes[Index(node)];
    const bool ran = time.end_ns != 0;
    const int64_t start = ran ? time.start_ns : (*now)[r];
    if (ran) (*now)[r] = time.end_ns;
    intervals.push_back({start, (*now)[r]});
  }
  return intervals;
}

Json InPlaceJson(const Profile& profile, const NodeProfile& figures,
                 Json intervals) {
  return {{"mean_us", figures.mean_us},
          {"min_us", figures.min_us},
          {"median_us", figures.median_us},
          {"p90_us", figures.p90_us},
          {"p99_us", figures.p99_us},
          {"max_us", figures.max_us},
          {"stddev_us", figures.stddev_us},
          {"percent", figures.percent},
          {"runs_us", InPlaceUs(profile, figures.node)},
          {"intervals_ns", std::move(intervals)}};
}

Json IsolatedJson(const NodeProfile& figures) {
  const std::vector<double>& times = figures.isolated_us;
  if (times.empty()) return nullptr;
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return {{"mean_us", MeanOf(times)},
          {"min_us", *least},
          {"max_us", *most},
          {"repeats_us", times}};
}

Json TensorJson(const GraphEntry& entry) {
  return {{"shape", entry.shape}, {"dtype", ToString(entry.dtype)}};
}

Json NodeJson(const GraphIndex& index, const Profile& profile,
              const NodeProfile& figures, Json intervals) {
  const Graph& graph = index.graph();
  const GraphNode& node = graph.node(figures.node);
  Json inputs = Json::array();
  for (const EntryRef& ref : node.inputs) {
    inputs.push_back(TensorJson(graph.entry(graph.EntryOf(ref))));
  }
  Json outputs = Json::array();
  for (uint32_t o = 0; o < graph.OutputsOf(figures.node); ++o) {
    outputs.push_back(TensorJson(graph.entry(graph.EntryOf(figures.node, o))));
  }
  Json counters = Json::object();
  for (const NodeCounts& counts : profile.counters) {
    counters[counts.name] = CountAt(counts, figures.node);
  }
  return {{"node", Index(figures.node)},
          {"key", index.KeyOf(figures.node)},
          {"name", node.name},
          {"op", node.function},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"in_place", InPlaceJson(profile, figures, std::move(intervals))},
          {"isolated", IsolatedJson(figures)},
          {"bytes_read", figures.bytes_read},
          {"bytes_written", figures.bytes_written},
          {"gb_per_s", figures.gb_per_s},
          {"live_bytes", figures.live_bytes},
          {"counters", std::move(counters)}};
}

Json SummaryJson(const ProfileSummary& summary, bool has_plain) {
  const auto plain = [&](double us) { return has_plain ? Json(us) : Json(); };
  return {{"nodes_sum_us", summary.sum_us},
          {"debug_run_mean_us", summary.run_us},
          {"rest_us", summary.rest_us},
          {"plain_run_mean_us", plain(summary.plain_us)},
          {"plain_run_median_us", plain(summary.plain_median_us)},
          {"plain_run_min_us", plain(summary.plain_min_us)},
          {"peak_live_bytes", summary.peak_live_bytes}};
}

}  // namespace

std::string ProfileCsv(const Graph& graph, const ProfileSummary& summary,
                       const Profile& profile) {
  std::vector<std::string> header = {"node",
                                     "name",
                                     "op",
                                     "inputs",
                                     "outputs",
                                     "shapes",
                                     "in_place_mean_us",
                                     "in_place_min_us",
                                     "in_place_median_us",
                                     "in_place_p90_us",
                                     "in_place_p99_us",
                                     "in_place_max_us",
                                     "in_place_stddev_us",
                                     "in_place_percent",
                                     "in_place_runs_us",
                                     "first_start_ns",
                                     "first_end_ns",
                                     "isolated_mean_us",
                                     "isolated_repeats_us",
                                     "bytes_read",
                                     "bytes_written",
                                     "gb_per_s",
                                     "live_bytes"};
  for (const NodeCounts& counts : profile.counters) {
    header.push_back(CsvText(counts.name));
  }
  std::string text;
  AddLine(header, &text);
  for (const NodeProfile& figures : summary.nodes) {
    AddLine(CsvCells(graph, profile, figures), &text);
  }
  return text;
}

std::string ProfileJson(const GraphIndex& index, const ProfileSummary& summary,
                        const Profile& profile) {
  std::vector<int64_t> now;
  for (const TimedRun& run : profile.runs) now.push_back(run.whole.start_ns);
  Json nodes = Json::array();
  for (const NodeProfile& figures : summary.nodes) {
    nodes.push_back(NodeJson(index, profile, figures,
                             IntervalsJson(profile, figures.node, &now)));
  }
  Json runs = Json::array();
  for (const TimedRun& run : profile.runs) {
    runs.push_back({run.whole.start_ns, run.whole.end_ns});
  }
  const Json json = {
      {"nodes", std::move(nodes)},
      {"summary", SummaryJson(summary, !profile.plain_ns.empty())},
      {"debug_runs_ns", std::move(runs)},
      {"plain_runs_ns", profile.plain_ns},
      {"clock",
       {{"wall_ns", profile.wall_ns}, {"monotonic_ns", profile.monotonic_ns}}},
      {"threads", profile.threads},
      {"notes", profile.notes}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nodewise
