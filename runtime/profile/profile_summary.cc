#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "nodewise/debug/run_observer.h"
#include "nodewise/profile/profile.h"
#include "runtime/profile/profile_text.h"

namespace nodewise {
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

// The traffic is the least that the node must move; caches and padding may make
// it more.
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

}  // namespace nodewise
