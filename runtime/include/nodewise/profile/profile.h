#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// A counter that was read around every node; see profiler.h.
struct NodeCounts {
  std::string name;             // "cycles", ...
  std::vector<double> by_node;  // Means over the runs.
};

// A task of a parallel loop that a thread ran for a node.
struct WorkerSpan {
  int64_t start_ns = 0, end_ns = 0;
  int worker = 0;  // 0 is the thread that runs the network.
  NodeId node{};
};

// Everything that profiling found out.
struct Profile {
  std::vector<TimedRun> runs;     // In place, without the warm-up.
  std::vector<int64_t> plain_ns;  // Plain runs, one for each of `runs`.
  // Seconds by node and repeat, as TVM's run_individual gives them; empty if
  // not asked for.
  std::vector<std::vector<double>> isolated;
  std::vector<NodeCounts> counters;
  // A separate run in which the thread pool was watched; it is part of no
  // figure. Both are empty if not asked for.
  TimedRun watched;
  std::vector<WorkerSpan> workers;
  std::vector<std::string> notes;  // Why a counter is missing, and the like.
  // One moment on the wall clock and on the monotonic clock, for clock times.
  int64_t wall_ns = 0;
  int64_t monotonic_ns = 0;
  int threads = 0;
};

// Returns a profile that begins now: the two clocks and the number of threads.
Profile BeginProfile();

// What profiling found, as figures and as text. The functions are pure: any
// thread may call them, but not two at once with one GraphIndex. A node's name
// may be any bytes; each form says what it does with bytes that it cannot hold.

// Figures of one node over the runs, all from in-place runs but `isolated_us`.
// The median of an even number of runs is the mean of the middle two; p90 and
// p99 are by nearest rank, so they are times that were measured; the standard
// deviation is that of the runs themselves (divided by n, as in TVM).
struct NodeProfile {
  NodeId node{};
  double mean_us = 0, min_us = 0, max_us = 0, median_us = 0;
  double p90_us = 0, p99_us = 0, stddev_us = 0;
  double percent = 0;  // Share of the sum of all nodes' means.
  // When it ran in the first run. A node that takes no time, such as a free
  // __nop, starts and ends where the one before it ended.
  int64_t first_start_ns = 0, first_end_ns = 0;
  // When it ran in the mean of the runs: they are laid over each other so that
  // all begin where the first one does. From start to end is `mean_us`.
  int64_t mean_start_ns = 0, mean_end_ns = 0;
  std::vector<double> isolated_us;  // By repeat.
  // The sizes of its tensors. One that it reads twice counts once, and a __nop
  // that only gives a tensor another shape moves nothing.
  uint64_t bytes_read = 0, bytes_written = 0;
  double gb_per_s = 0;  // The sum of both per median time; 0 if that is 0.
  // The size of the slots that, by the plan, hold something needed while it
  // runs: inputs and parameters always, a tensor from the node that makes it to
  // its last reader, an output of the graph to the end. A slot counts once.
  uint64_t live_bytes = 0;
};

// The rows of the function nodes in the order of the graph, and the figures
// below the table.
struct ProfileSummary {
  std::vector<NodeProfile> nodes;
  double sum_us = 0;    // Sum of the nodes' means.
  double run_us = 0;    // Mean of the debug runs, around all nodes.
  double plain_us = 0;  // Mean of the plain runs.
  double plain_min_us = 0, plain_median_us = 0;
  double rest_us = 0;  // run_us - sum_us: outside of all nodes.
  uint64_t peak_live_bytes = 0;
};
// Computes the figures. REQUIRES: the index has a plan, and `profile` belongs
// to its graph.
ProfileSummary SummariseProfile(const GraphIndex& index,
                                const Profile& profile);

enum class TableLayout {
  // Node Name, Ops, Time(us), Time(%), Start Time, End Time, Shape, Inputs,
  // Outputs: the table of TVM's documentation, a row for each function node.
  // Times are means over the in-place runs, rounded to two decimals and written
  // as Python does (3.4, and 12.0 for a whole number). Start and end are those
  // of the mean of the runs, in local time and whole microseconds. From start
  // to end is never less than the row's time, and no row starts before the one
  // before it ends. The loss by rounding is made up for by moving later rows,
  // by less than a microsecond for each row; ProfileJson has the nanoseconds of
  // every run. "-" where nothing ran. Shape is that of the node's output 0.
  kClock,
  // The table that TVM 0.9 to 0.19 print: a row for each output,
  // Measurements(us), and, if sorted, a row Total_time. Its times are the
  // isolated ones if there are any, else those of the in-place runs.
  kMeasurements,
};
struct TableOptions {
  TableLayout layout = TableLayout::kClock;
  bool sort_by_time = false;  // Longest first, as printed; else as executed.
  size_t max_rows = 0;        // 0: all. A last line counts the rest.
  // 0: columns are as wide as their texts. Else the lines of kClock fit this
  // many characters: Ops is left out if it only repeats the names of the nodes,
  // and long names are cut in the middle.
  size_t line_width = 0;
};

// Returns the middle one, or the mean of the middle two; 0 if there is none.
double MedianOf(std::vector<double> values);

// Returns the table, without a final newline. Bytes of a name that would break
// its line are shown as \xNN, and only the beginning of a name of more than 500
// bytes is shown.
std::string ProfileTable(const Graph& graph, const ProfileSummary& summary,
                         const Profile& profile, const TableOptions& options);
// Returns the lines below the table: the sum, the run, the plain run, the rest,
// the memory, the notes. Without a final newline.
std::string ProfileFooter(const ProfileSummary& summary,
                          const Profile& profile);
// Returns a header and one row for each function node with every figure, quoted
// as RFC 4180 says, each ended by a line feed alone. Several figures in one
// cell are separated by "; ". Bytes of a name that
// no line of text should hold are written as \xNN.
std::string ProfileCsv(const Graph& graph, const ProfileSummary& summary,
                       const Profile& profile);
// Returns a JSON object with every figure: {"nodes": [...], "summary": {...},
// ...}. A node's "in_place" and "isolated" (null if not measured) are two
// objects, as they are two measurements; plain runs that were not made are null
// too. Invalid UTF-8 is written as U+FFFD,
// numbers that are not finite as null; all others are read back exactly.
std::string ProfileJson(const GraphIndex& index, const ProfileSummary& summary,
                        const Profile& profile);

// Returns a Chrome trace that Perfetto opens: the nodes of every run on one
// track, inside their run, with the watched run last; a track for each worker
// that has spans; live bytes as a counter. Events are in the order of time, the
// first at 0. REQUIRES: as SummariseProfile().
std::string ProfileTrace(const GraphIndex& index, const Profile& profile);

}  // namespace nodewise
