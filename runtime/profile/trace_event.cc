#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nodewise/dump/tvm_trace.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile_table.h"

namespace nodewise {
namespace {

constexpr int kNodeTrack = 1;
constexpr int kFirstWorkerTrack = 2;

std::string Metadata(std::string_view what, int track, std::string_view name) {
  return fmt::format(
      R"({{"ph": "M", "pid": 1, "tid": {}, "name": "{}", "args": )"
      R"({{"name": {}}}}})",
      track, what, TraceString(name));
}

std::string ShapesOf(const Graph& graph, const std::vector<uint32_t>& entries) {
  std::string text;
  for (const uint32_t entry : entries) {
    if (!text.empty()) text += ", ";
    text += ToString(graph.entries[entry].dtype) +
            ShapeToString(graph.entries[entry].shape);
  }
  return text;
}

// Returns what Perfetto shows for a selected node, without the braces.
std::string NodeArgs(const Graph& graph, const NodeProfile& figures) {
  const GraphNode& node = graph.node(figures.node);
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  for (const EntryRef& ref : node.inputs) {
    inputs.push_back(Index(graph.EntryOf(ref)));
  }
  for (uint32_t o = 0; o < graph.OutputsOf(figures.node); ++o) {
    outputs.push_back(Index(graph.EntryOf(figures.node, o)));
  }
  return fmt::format(
      R"("node": {}, "op": {}, "inputs": {}, "outputs": {}, )"
      R"("bytes_read": {}, "bytes_written": {}, "live_bytes": {})",
      Index(figures.node), TraceString(node.function),
      TraceString(ShapesOf(graph, inputs)),
      TraceString(ShapesOf(graph, outputs)), figures.bytes_read,
      figures.bytes_written, figures.live_bytes);
}

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
      AddLiveBytes(times.nodes[node].start_ns, summary_.nodes[i].live_bytes);
    }
  }

  void AddWorker(const WorkerSpan& span) {
    const bool known = Index(span.node) < graph_.nodes.size();
    AddSpan({span.start_ns, span.end_ns}, kFirstWorkerTrack + span.worker,
            known ? TraceString(graph_.node(span.node).name) : "\"?\"",
            fmt::format("\"node\": {}", Index(span.node)));
    workers_.insert(span.worker);
  }

  std::string Finish() {
    // A run begins with its first node, and the containing span must come
    // first.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) {
                       if (a.start_ns != b.start_ns) {
                         return a.start_ns < b.start_ns;
                       }
                       return a.duration_ns > b.duration_ns;
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

  void AddLiveBytes(int64_t moment_ns, uint64_t bytes) {
    events_.push_back(
        {moment_ns, 0,
         fmt::format(R"("ph": "C", "pid": 1, "name": "live bytes", )"
                     R"("args": {{"bytes": {}}})",
                     bytes)});
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

std::string ProfileTrace(const GraphIndex& index, const Profile& profile) {
  TraceBuilder trace(index, profile);
  for (size_t run = 0; run <= profile.runs.size(); ++run) trace.AddRun(run);
  for (const WorkerSpan& span : profile.workers) trace.AddWorker(span);
  return trace.Finish();
}

}  // namespace nodewise
