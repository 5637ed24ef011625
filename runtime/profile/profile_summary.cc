#include <algorithm>
#include <cmath>
#include <numeric>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/profile/profile_table.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
namespace {

constexpr double kNsPerUs = 1e3;

// REQUIRES: `sorted` is sorted and not empty.
double MedianOf(const std::vector<double>& sorted) {
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

// Returns the percentile by nearest rank: the minimum value that `percent` of
// the values do not exceed.
double PercentileOf(const std::vector<double>& sorted, size_t percent) {
  const size_t rank = (percent * sorted.size() + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

NodeTime TimeOf(const TimedRun& run, uint32_t node) {
  return node < run.nodes.size() ? run.nodes[node] : NodeTime();
}

void AddSpread(const Profile& profile, NodeProfile* figures) {
  std::vector<double> times = InPlaceUs(profile, figures->node);
  if (times.empty()) return;
  figures->mean_us = MeanOf(times);
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

void AddIsolated(const Profile& profile, NodeProfile* figures) {
  const uint32_t node = Index(figures->node);
  if (node >= profile.isolated.size()) return;
  for (const double seconds : profile.isolated[node]) {
    figures->isolated_us.push_back(seconds * 1e6);
  }
}

uint64_t BytesOf(const Graph& graph, uint32_t entry) {
  const GraphEntry& of = graph.entries[entry];
  return TensorBytes(of.shape, of.dtype).value_or(0);
}

void AddTraffic(const Graph& graph, const StoragePlan& plan,
                NodeProfile* figures) {
  std::vector<uint32_t> read;
  for (const EntryRef& ref : graph.node(figures->node).inputs) {
    read.push_back(Index(graph.EntryOf(ref)));
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  for (uint32_t o = 0; o < graph.OutputsOf(figures->node); ++o) {
    const uint32_t entry = Index(graph.EntryOf(figures->node, o));
    if (plan.base_of[entry] != entry) return;  // A __nop in place.
    figures->bytes_written += BytesOf(graph, entry);
  }
  for (const uint32_t entry : read) {
    figures->bytes_read += BytesOf(graph, entry);
  }
  if (figures->median_us <= 0) return;
  const auto bytes =
      static_cast<double>(figures->bytes_read + figures->bytes_written);
  figures->gb_per_s = bytes / (figures->median_us * kNsPerUs);
}

// The nodes during which a tensor is needed, the first and the last included.
struct Life {
  uint32_t slot = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

// Returns the lives by base entry; a __nop in place extends its input's life.
std::vector<Life> LivesOf(const Graph& graph, const StoragePlan& plan) {
  const auto num_nodes = static_cast<uint32_t>(graph.nodes.size());
  std::vector<Life> lives(graph.entries.size());
  const auto need = [&](const EntryRef& ref, uint32_t node) {
    Life& life = lives[plan.base_of[Index(graph.EntryOf(ref))]];
    life.last = std::max(life.last, node);
  };
  for (uint32_t n = 0; n < num_nodes; ++n) {
    const bool input = graph.nodes[n].kind == GraphNode::Kind::kInput;
    for (uint32_t o = 0; o < graph.OutputsOf(NodeId{n}); ++o) {
      const uint32_t entry = Index(graph.EntryOf(NodeId{n}, o));
      Life& life = lives[entry];
      life.slot = plan.slot_of[entry];
      life.first = input ? 0 : n;
      life.last = input ? num_nodes - 1 : n;
    }
    for (const EntryRef& ref : graph.nodes[n].inputs) need(ref, n);
  }
  for (const EntryRef& head : graph.heads) need(head, num_nodes - 1);
  return lives;
}

std::vector<uint64_t> LiveBytes(const Graph& graph, const StoragePlan& plan) {
  std::vector<Life> lives = LivesOf(graph, plan);
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return a.slot != b.slot ? a.slot < b.slot : a.first < b.first;
  });
  // The bytes added at each node, less those freed before it; sums that wrap
  // come out right.
  std::vector<uint64_t> changes(graph.nodes.size() + 1);
  for (size_t i = 0; i < lives.size();) {
    Life held = lives[i];
    for (++i; i < lives.size() && lives[i].slot == held.slot &&
              lives[i].first <= held.last;
         ++i) {
      held.last = std::max(held.last, lives[i].last);
    }
    changes[held.first] += plan.slots[held.slot].bytes;
    changes[held.last + 1] -= plan.slots[held.slot].bytes;
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return changes;
}

void AddClock(const Profile& profile, ProfileSummary* summary) {
  if (profile.runs.empty()) return;
  const TimedRun& run = profile.runs[0];
  int64_t now = run.whole.start_ns;
  for (NodeProfile& figures : summary->nodes) {
    const NodeTime time = TimeOf(run, Index(figures.node));
    const bool ran = time.end_ns != 0;
    figures.first_start_ns = ran ? time.start_ns : now;
    figures.first_end_ns = ran ? time.end_ns : now;
    now = figures.first_end_ns;
  }
}

void AddRuns(const Profile& profile, ProfileSummary* summary) {
  for (const NodeProfile& node : summary->nodes) {
    summary->sum_us += node.mean_us;
  }
  for (NodeProfile& node : summary->nodes) {
    if (summary->sum_us > 0) {
      node.percent = node.mean_us / summary->sum_us * 100;
    }
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

}  // namespace

ProfileSummary SummariseProfile(const Graph& graph, const StoragePlan& plan,
                                const Profile& profile) {
  ProfileSummary summary;
  const std::vector<uint64_t> live = LiveBytes(graph, plan);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind == GraphNode::Kind::kInput) continue;
    NodeProfile figures;
    figures.node = NodeId{n};
    figures.live_bytes = live[n];
    AddSpread(profile, &figures);
    AddIsolated(profile, &figures);
    AddTraffic(graph, plan, &figures);
    summary.nodes.push_back(std::move(figures));
  }
  // Without function nodes the inputs are all there is.
  summary.peak_live_bytes = *std::max_element(live.begin(), live.end());
  AddClock(profile, &summary);
  AddRuns(profile, &summary);
  return summary;
}

}  // namespace nodewise
