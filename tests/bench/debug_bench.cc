// Every job of the debug executor is compared with the minimum that it must
// cost: timing against readings of the clock, statistics against a pass that
// reads the same bytes, a dump against write() of the same bytes. A small
// network spends most of a recorded run on making files, no matter what is in
// them: there we judge what a run costs beside its files, and what a node costs
// beyond them and its bytes.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/debug_networks.h"
#include "tests/bench/debug_sides.h"
#include "tests/bench/memory.h"
#include "tests/bench/ratio.h"
#include "tests/bench/read_pass.h"

namespace nodewise {
namespace {

constexpr double kTimingLimit = 1.2;
constexpr double kStatsLimit = 1.5;
constexpr double kDumpLimit = 1.3;
constexpr size_t kMemoryLimit = 64 * kMib;  // Plus twice the largest entry.
// The files cost more than the bytes in networks with fewer bytes than this.
constexpr size_t kSmallNetwork = 16 * kMib;
// The latter in a network of many nodes that do next to nothing. In one of 15
// nodes the runs themselves vary by more than the 15 microseconds that it
// allows.
constexpr double kNodeLimit = 1000;  // Nanoseconds.
// A run with a recorder, and the thread that writes, against its files alone.
constexpr double kRunLimit = 2.5;

bool IsSmall(const TimedNetwork& network) {
  return EntryBytes(network.graph) < kSmallNetwork;
}

// What the recorder looks at: each entry once where it is made and, if
// `with_inputs`, once more wherever a node reads it, since it is hashed there.
std::vector<EntryId> Recorded(const Graph& graph, bool with_inputs) {
  std::vector<EntryId> entries;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (with_inputs) {
      for (const EntryRef& input : graph.nodes[n].inputs) {
        entries.push_back(graph.EntryOf(input));
      }
    }
    for (uint32_t output = 0; output < graph.OutputsOf(NodeId{n}); ++output) {
      entries.push_back(graph.EntryOf(NodeId{n}, output));
    }
  }
  return entries;
}

// Returns the address of each entry: where the run has it, or in memory of its
// own.
std::vector<const char*> InPlace(const DebugExecutor& executor) {
  std::vector<const char*> places;
  for (uint32_t i = 0; i < executor.graph().entries.size(); ++i) {
    places.push_back(
        static_cast<const char*>(DataOf(executor.TensorOf(EntryId{i}))));
  }
  return places;
}
std::vector<const char*> Apart(const Graph& graph, const std::string& block) {
  std::vector<const char*> places;
  const char* next = block.data();
  for (const size_t bytes : EntrySizes(graph)) {
    places.push_back(next);
    next += bytes;
  }
  return places;
}

// One pass over these entries' bytes.
TimedSide ReadPass(const Graph& graph, std::vector<EntryId> entries,
                   std::vector<const char*> places) {
  return [entries = std::move(entries), places = std::move(places),
          sizes = EntrySizes(graph)] {
    return NanosecondsOf([&] {
      uint64_t sum = 0;
      for (const EntryId entry : entries) {
        sum += NodewiseReadPass(places[Index(entry)], sizes[Index(entry)]);
      }
      benchmark::DoNotOptimize(sum);
    });
  };
}

bool BenchTiming(const std::string& name, const TimedNetwork& network,
                 double limit) {
  const auto plain = MakePlain(network);
  const auto timed = MakeDebug(network, std::nullopt);
  const size_t readings = NumCalls(network.graph) + 1;
  return RunSurplus({name, limit, network.rounds,
                     RunsOf(*timed, network.repeats),
                     RunsOf(*plain, network.repeats),
                     ClockReadings(readings, network.repeats)});
}

// The cost of the clock does not depend on what functions do, and is invisible
// beside functions that take milliseconds.
bool BenchTimings(const std::string& name, const TimedNetwork& network) {
  TimedNetwork empty = WithEmptyFunctions(network);
  empty.rounds = 101;
  empty.repeats = 20;
  const bool within_limit =
      BenchTiming(name + "_timing_of_empty_functions", empty, kTimingLimit);
  return BenchTiming(name + "_timing", network,
                     network.is_fine_grained ? kTimingLimit : kNoLimit) &&
         within_limit;
}

// The dump of one run, removed again.
std::vector<DumpPlace::File> FilesOf(DebugExecutor& executor,
                                     DumpPlace& place) {
  NODEWISE_CHECK(executor.Run().ok() && executor.dump_status().ok());
  std::vector<DumpPlace::File> files = place.Files();
  place.Clear();
  return files;
}

// Copies these entries' bytes to one place: a run writes over its memory, so
// what is yet to be written must be kept elsewhere.
TimedSide CopyPass(const Graph& graph, const std::vector<EntryId>& entries,
                   const std::vector<const char*>& places) {
  const std::vector<size_t> sizes = EntrySizes(graph);
  size_t total = 0;
  for (const EntryId entry : entries) total += sizes[Index(entry)];
  return [=, block = std::string(total, 'x')]() mutable {
    return NanosecondsOf([&] {
      char* next = block.data();
      for (const EntryId entry : entries) {
        std::memcpy(next, places[Index(entry)], sizes[Index(entry)]);
        next += sizes[Index(entry)];
      }
      benchmark::DoNotOptimize(block.data());
    });
  };
}

// Prints what recording costs a node beyond a plain run and its `parts`, the
// work that cannot be avoided.
bool BenchNodeBeyond(const std::string& name, const TimedNetwork& network,
                     TimedSide ours, TimedSide plain,
                     const std::vector<TimedSide>& parts) {
  std::vector<TimedSide> sides = {std::move(ours), std::move(plain)};
  sides.insert(sides.end(), parts.begin(), parts.end());
  const auto times = TimeInTurns(sides, network.rounds);
  std::vector<double> beyond = times[0];
  for (size_t side = 1; side < times.size(); ++side) {
    for (size_t i = 0; i < beyond.size(); ++i) beyond[i] -= times[side][i];
  }
  const auto calls = static_cast<double>(NumCalls(network.graph));
  return ReportValue(name + "_a_node", Quantile(beyond, 0.5) / calls,
                     network.is_fine_grained ? kNodeLimit : kNoLimit,
                     "ns beyond its files and bytes");
}

// The baseline for the limit reads the bytes of all entries once, from memory.
// The other rows are for other readings of the limit: as often as the recorder
// may have to look at them, and where the run has them, which is a few blocks
// of memory that are reused, mostly in the caches.
bool BenchStats(const std::string& name, const TimedNetwork& network) {
  DumpPlace place;
  const auto plain = MakePlain(network);
  const auto stats = MakeDebug(network, StatsTo(place));
  const Graph& graph = network.graph;
  const auto against = [&](const char* unit, double limit, bool with_inputs,
                           const std::vector<const char*>& places) {
    return RunSurplus({name + unit, limit, network.rounds,
                       RecordedRun(*stats, place), RunsOf(*plain, 1),
                       ReadPass(graph, Recorded(graph, with_inputs), places)});
  };
  const std::string block(EntryBytes(graph), 'x');
  const auto apart = Apart(graph, block);
  bool within_limit = against(
      "_stats", IsSmall(network) ? kNoLimit : kStatsLimit, false, apart);
  against("_stats_with_inputs", kNoLimit, true, apart);
  const auto in_place = InPlace(*stats);
  against("_stats_in_place", kNoLimit, false, in_place);
  against("_stats_in_place_with_inputs", kNoLimit, true, in_place);
  const TimedSide files = WritesOf(FilesOf(*stats, place), place);
  const auto times = TimeInTurns({files}, network.rounds);
  ReportValue(name + "_stats_files_alone", Quantile(times[0], 0.5), kNoLimit,
              "ns");
  within_limit &= BenchNodeBeyond(
      name + "_stats", network, RecordedRun(*stats, place), RunsOf(*plain, 1),
      {files, ReadPass(graph, Recorded(graph, true), in_place)});
  return within_limit;
}

// The baseline for the limit writes the same bytes to one file. The other rows
// make the same folder and files: that is what the layout costs before anything
// is recorded.
bool BenchDump(const std::string& name, const TimedNetwork& network) {
  DumpPlace place;
  const auto plain = MakePlain(network);
  const auto dump = MakeDebug(network, DumpTo(place));
  const auto against = [&](const char* unit, double limit,
                           std::vector<DumpPlace::File> files) {
    return RunSurplus({name + unit, limit, network.rounds,
                       RecordedRun(*dump, place), RunsOf(*plain, 1),
                       WritesOf(std::move(files), place)});
  };
  const std::vector<DumpPlace::File> files = FilesOf(*dump, place);
  size_t bytes = 0;
  for (const DumpPlace::File& file : files) bytes += file.bytes;
  bool within_limit = against("_dump", IsSmall(network) ? kNoLimit : kDumpLimit,
                              {{place.path(), bytes}});
  against("_dump_as_many_files", kNoLimit, files);
  RunContest({name + "_dump_files_alone", kNoLimit, network.rounds,
              WritesOf(files, place),
              WritesOf({{place.path(), bytes}}, place)});
  const Graph& graph = network.graph;
  const auto in_place = InPlace(*dump);
  within_limit &= BenchNodeBeyond(
      name + "_dump", network, RecordedRun(*dump, place), RunsOf(*plain, 1),
      {WritesOf(files, place), ReadPass(graph, Recorded(graph, true), in_place),
       CopyPass(graph, Recorded(graph, false), in_place)});
  return within_limit;
}

bool BenchMemory(const std::string& name, const TimedNetwork& network) {
  DumpPlace place;
  size_t largest = 0;
  for (const size_t bytes : EntrySizes(network.graph)) {
    largest = std::max(largest, bytes);
  }
  // It has run: memory that it touched itself does not count as the
  // recording's.
  std::unique_ptr<DebugExecutor> executor;
  const size_t growth = GrowthInChild(
      [&] {
        executor = MakeDebug(network, std::nullopt);
        NODEWISE_CHECK(executor->Run().ok());
      },
      [&] {
        NODEWISE_CHECK(executor->StartRecording(DumpTo(place)).ok());
        NODEWISE_CHECK(executor->Run().ok() && executor->dump_status().ok());
      });
  const auto limit = static_cast<double>(2 * largest + kMemoryLimit);
  return ReportValue(name + "_memory", static_cast<double>(growth) / kMib,
                     limit / kMib, "MiB beyond a plain run");
}

bool BenchNetwork(const std::string& name, const TimedNetwork& network) {
  std::printf("%s: %zu calls, %.3f MB of entries, %s\n", name.c_str(),
              NumCalls(network.graph),
              static_cast<double>(EntryBytes(network.graph)) / 1e6,
              network.work.c_str());
  const bool results[] = {BenchTimings(name, network),
                          BenchStats(name, network), BenchDump(name, network),
                          BenchMemory(name, network)};
  bool within_limits = true;
  for (const bool result : results) within_limits &= result;
  return within_limits;
}

double MedianDifference(const std::vector<double>& ours,
                        const std::vector<double>& plain) {
  std::vector<double> differences;
  for (size_t i = 0; i < ours.size(); ++i) {
    differences.push_back(ours[i] - plain[i]);
  }
  return Quantile(differences, 0.5);
}

// Separates the costs of each run and each node by a chain of one node and one
// of a thousand.
bool BenchFixedCost(const std::string& name,
                    std::optional<RecordOptions> record, DumpPlace& place) {
  constexpr int kRounds = 101;
  constexpr uint32_t kMany = 1000;
  const TimedNetwork one = SmallChain(1);
  const TimedNetwork many = SmallChain(kMany);
  const auto plain_one = MakePlain(one);
  const auto plain_many = MakePlain(many);
  const auto our_one = MakeDebug(one, record);
  const auto our_many = MakeDebug(many, record);
  const auto times =
      TimeInTurns({RecordedRun(*our_one, place), RunsOf(*plain_one, 1),
                   RecordedRun(*our_many, place), RunsOf(*plain_many, 1)},
                  kRounds);
  const double of_one = MedianDifference(times[0], times[1]);
  const double of_many = MedianDifference(times[2], times[3]);
  const double a_node = (of_many - of_one) / (kMany - 1);
  ReportValue(name + "_a_run", of_one - a_node, kNoLimit, "ns");
  ReportValue(name + "_a_node", a_node, kNoLimit, "ns");
  if (!record.has_value()) return true;
  return RunSurplus({name + "_a_run_to_its_files", kRunLimit, kRounds,
                     RecordedRun(*our_one, place), RunsOf(*plain_one, 1),
                     WritesOf(FilesOf(*our_one, place), place)});
}

}  // namespace

bool BenchEveryTime(const std::string& name, const TimedNetwork& network) {
  return BenchTiming(name, network, kTimingLimit);
}

bool BenchDebugFixture(const std::string& name) {
  const std::optional<TimedNetwork> network = LargestFixture();
  if (!network.has_value()) {
    std::printf("%s: skipped, there are no fixtures of tvm-0.14\n",
                name.c_str());
    return true;
  }
  return BenchNetwork(name, *network);
}

bool BenchDebugLarge(const std::string& name) {
  return BenchNetwork(name, LargeChain());
}

bool BenchDebugChain(const std::string& name) {
  return BenchNetwork(name, SmallChain(1000));
}

bool BenchDebugFixedCost(const std::string& name) {
  DumpPlace place;
  BenchFixedCost(name + "_timing", std::nullopt, place);
  const bool is_within_limit =
      BenchFixedCost(name + "_stats", StatsTo(place), place);
  return BenchFixedCost(name + "_dump", DumpTo(place), place) &&
         is_within_limit;
}

}  // namespace nodewise
