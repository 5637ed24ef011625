#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/dump/dump.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile.h"
#include "nodewise/support/words.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

// Returns the count at a node, where the counter may not have been read. NaN
// stands for a count that was not taken: an empty cell in CSV, null in JSON.
double CountAt(const NodeCounts& counts, NodeId node) {
  if (Index(node) < counts.by_node.size()) return counts.by_node[Index(node)];
  return std::numeric_limits<double>::quiet_NaN();
}

// A cell that is not a number would turn a column of numbers into one of text
// for most readers, so what is not finite is left empty.
std::string Number(double value) {
  return std::isfinite(value) ? PythonFloat(value) : "";
}

std::string Numbers(const std::vector<double>& values) {
  return absl::StrJoin(values, "; ", [](std::string* text, double value) {
    *text += Number(value);
  });
}

std::string ShapeText(const GraphEntry& entry) {
  return ShapeToString(entry.shape);
}

// The figures of the in-place runs, by their names in both forms. The order is
// part of the CSV: readers may go by the column.
struct FigureRow {
  const char* name;
  double NodeProfile::*figure;
};
constexpr FigureRow kInPlaceFigures[] = {
    {"mean_us", &NodeProfile::mean_us},     {"min_us", &NodeProfile::min_us},
    {"median_us", &NodeProfile::median_us}, {"p90_us", &NodeProfile::p90_us},
    {"p99_us", &NodeProfile::p99_us},       {"max_us", &NodeProfile::max_us},
    {"stddev_us", &NodeProfile::stddev_us}, {"percent", &NodeProfile::percent}};

// The counters come last, because their number differs from profile to profile.
std::vector<std::string> CsvHeader(const Profile& profile) {
  std::vector<std::string> cells = {"node",   "name",    "op",
                                    "inputs", "outputs", "shapes"};
  for (const FigureRow& row : kInPlaceFigures) {
    cells.push_back(absl::StrCat("in_place_", row.name));
  }
  cells.insert(cells.end(),
               {"in_place_runs_us", "first_start_ns", "first_end_ns",
                "isolated_mean_us", "isolated_repeats_us", "bytes_read",
                "bytes_written", "gb_per_s", "live_bytes"});
  for (const NodeCounts& counts : profile.counters) {
    cells.push_back(CsvText(counts.name));
  }
  return cells;
}

// In the order of CsvHeader(), cell by cell.
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
      CsvText(JoinEntries(graph, EntriesMadeBy(graph, figures.node), "; ",
                          &ShapeText))};
  for (const FigureRow& row : kInPlaceFigures) {
    cells.push_back(Number(figures.*row.figure));
  }
  cells.insert(
      cells.end(),
      {Numbers(InPlaceUs(profile, figures.node)),
       std::to_string(figures.first_start_ns),
       std::to_string(figures.first_end_ns),
       isolated ? Number(MeanOf(figures.isolated_us)) : "",
       Numbers(figures.isolated_us), std::to_string(figures.bytes_read),
       std::to_string(figures.bytes_written), Number(figures.gb_per_s),
       std::to_string(figures.live_bytes)});
  for (const NodeCounts& counts : profile.counters) {
    cells.push_back(Number(CountAt(counts, figures.node)));
  }
  return cells;
}

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
  Json json;
  for (const FigureRow& row : kInPlaceFigures) {
    json[row.name] = figures.*row.figure;
  }
  json["runs_us"] = InPlaceUs(profile, figures.node);
  json["intervals_ns"] = std::move(intervals);
  return json;
}

// Has fewer figures than the in-place runs: repeats are few, so percentiles of
// them would mean nothing.
Json IsolatedJson(const NodeProfile& figures) {
  const std::vector<double>& times = figures.isolated_us;
  if (times.empty()) return nullptr;
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return {{"mean_us", MeanOf(times)},
          {"min_us", *least},
          {"max_us", *most},
          {"repeats_us", times}};
}

template <typename Entries>
Json TensorsJson(const Graph& graph, const Entries& entries) {
  Json tensors = Json::array();
  for (const EntryId id : entries) {
    const GraphEntry& entry = graph.entry(id);
    tensors.push_back(
        {{"shape", entry.shape}, {"dtype", ToString(entry.dtype)}});
  }
  return tensors;
}

// Has the key beside the name, since names need not be unique and readers join
// nodes of several files by the key.
Json NodeJson(const GraphIndex& index, const Profile& profile,
              const NodeProfile& figures, Json intervals) {
  const Graph& graph = index.graph();
  const GraphNode& node = graph.node(figures.node);
  Json counters = Json::object();
  for (const NodeCounts& counts : profile.counters) {
    counters[counts.name] = CountAt(counts, figures.node);
  }
  return {{"node", Index(figures.node)},
          {"key", index.KeyOf(figures.node)},
          {"name", node.name},
          {"op", node.function},
          {"inputs", TensorsJson(graph, InputsIn(graph, figures.node))},
          {"outputs", TensorsJson(graph, EntriesMadeBy(graph, figures.node))},
          {"in_place", InPlaceJson(profile, figures, std::move(intervals))},
          {"isolated", IsolatedJson(figures)},
          {"bytes_read", figures.bytes_read},
          {"bytes_written", figures.bytes_written},
          {"gb_per_s", figures.gb_per_s},
          {"live_bytes", figures.live_bytes},
          {"counters", std::move(counters)}};
}

// Null, not 0, says that there were no plain runs: a recorded run has none.
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

// Tracks are threads of the trace. The workers follow the nodes, so that the
// nodes are at the top however many there are.
constexpr int kNodeTrack = 1;
constexpr int kFirstWorkerTrack = 2;

// Events of phase M name the tracks and have no time.
std::string Metadata(std::string_view what, int track, std::string_view name) {
  return fmt::format(
      R"({{"ph": "M", "pid": 1, "tid": {}, "name": "{}", "args": )"
      R"({{"name": {}}}}})",
      track, what, TraceString(name));
}

// As compilers write a tensor, since the line in the viewer is short.
std::string TypeText(const GraphEntry& entry) {
  return ToString(entry.dtype) + ShapeToString(entry.shape);
}

// Returns what Perfetto shows for a selected node, without the braces.
std::string NodeArgs(const Graph& graph, const NodeProfile& figures) {
  const NodeId node = figures.node;
  return fmt::format(
      R"("node": {}, "op": {}, "inputs": {}, "outputs": {}, )"
      R"("bytes_read": {}, "bytes_written": {}, "live_bytes": {})",
      Index(node), TraceString(graph.node(node).function),
      TraceString(JoinEntries(graph, InputsIn(graph, node), ", ", &TypeText)),
      TraceString(
          JoinEntries(graph, EntriesMadeBy(graph, node), ", ", &TypeText)),
      figures.bytes_read, figures.bytes_written, figures.live_bytes);
}

// Collects events in any order and sorts them at the end. All times are on the
// monotonic clock until then, when the first becomes 0, because viewers show
// the distance from the start.
class TraceBuilder {
 public:
  TraceBuilder(const GraphIndex& index, const Profile& profile)
      : graph_(index.graph()),
        profile_(profile),
        summary_(SummariseProfile(index, profile)) {
    for (const NodeProfile& figures : summary_.nodes) {
      names_.push_back(TraceString(graph_.node(figures.node).name));
      args_.push_back(NodeArgs(graph_, figures));
    }
  }

  // Adds a run; the watched run has the number after the last.
  void AddRun(size_t run) {
    const bool is_watched = run == profile_.runs.size();
    const TimedRun& times = is_watched ? profile_.watched : profile_.runs[run];
    if (times.nodes.empty()) return;
    AddSpan(
        times.whole, kNodeTrack,
        fmt::format("\"run {}{}\"", run, is_watched ? ", workers watched" : ""),
        fmt::format("\"run\": {}", run));
    for (size_t i = 0; i < summary_.nodes.size(); ++i) {
      const uint32_t node = Index(summary_.nodes[i].node);
      if (node >= times.nodes.size() || times.nodes[node].end_ns == 0) continue;
      AddSpan(times.nodes[node], kNodeTrack, names_[i],
              fmt::format("\"run\": {}, {}", run, args_[i]));
      events_.push_back(
          {times.nodes[node].start_ns, 0,
           fmt::format(R"("ph": "C", "pid": 1, "name": "live bytes", )"
                       R"("args": {{"bytes": {}}})",
                       summary_.nodes[i].live_bytes)});
    }
  }

  // A task that belongs to no node of the graph is kept, under a question mark:
  // it took the time of a worker all the same.
  void AddWorker(const WorkerSpan& span) {
    const bool known = Index(span.node) < graph_.nodes.size();
    AddSpan({span.start_ns, span.end_ns}, kFirstWorkerTrack + span.worker,
            known ? TraceString(graph_.node(span.node).name) : "\"?\"",
            fmt::format("\"node\": {}", Index(span.node)));
    workers_.insert(span.worker);
  }

  // The order matters to viewers that read the events as a stream.
  std::string Finish() {
    // A run begins with its first node, and the containing span must come
    // first.
    std::ranges::stable_sort(events_, {}, [](const Event& event) {
      return std::pair(event.start_ns, -event.duration_ns);
    });
    std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n" +
                       Metadata("process_name", 0, "nodewise") + ",\n" +
                       Metadata("thread_name", kNodeTrack, "nodes");
    for (const int worker : workers_) {
      text += ",\n" + Metadata("thread_name", kFirstWorkerTrack + worker,
                               fmt::format("worker {}", worker));
    }
    for (const Event& event : events_) {
      text += fmt::format(
          ",\n{{\"ts\": {}, {}}}",
          TraceMicroseconds(event.start_ns - events_[0].start_ns), event.rest);
    }
    return text + "\n]}\n";
  }

 private:
  struct Event {
    int64_t start_ns;
    int64_t duration_ns;
    std::string rest;  // All but the start.
  };

  // `name` and `args` are JSON.
  void AddSpan(NodeTime time, int track, std::string_view name,
               std::string_view args) {
    const int64_t duration = std::max<int64_t>(time.Duration(), 0);
    events_.push_back(
        {time.start_ns, duration,
         fmt::format(R"("dur": {}, "ph": "X", "pid": 1, "tid": {}, )"
                     R"("name": {}, "args": {{{}}})",
                     TraceMicroseconds(duration), track, name, args)});
  }

  const Graph& graph_;
  const Profile& profile_;
  ProfileSummary summary_;
  std::vector<std::string> names_;  // By row of the summary, in JSON.
  std::vector<std::string> args_;
  std::vector<Event> events_;
  std::set<int> workers_;
};

}  // namespace

std::string ProfileCsv(const Graph& graph, const ProfileSummary& summary,
                       const Profile& profile) {
  std::string text = absl::StrJoin(CsvHeader(profile), ",") + "\n";
  for (const NodeProfile& figures : summary.nodes) {
    text += absl::StrJoin(CsvCells(graph, profile, figures), ",") + "\n";
  }
  return text;
}

// The nodes are in the order of the graph, and IntervalsJson() carries the
// clock of each run from one to the next.
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

std::string ProfileTrace(const GraphIndex& index, const Profile& profile) {
  TraceBuilder trace(index, profile);
  for (size_t run = 0; run <= profile.runs.size(); ++run) trace.AddRun(run);
  for (const WorkerSpan& span : profile.workers) trace.AddWorker(span);
  return trace.Finish();
}

}  // namespace nodewise
