#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "tests/bench/debug_networks.h"
#include "tests/bench/ratio.h"

namespace nodewise {

// What is timed of the debug executor, and what it is compared with.

// Returns the number of function calls in a run.
size_t NumCalls(const Graph& graph);

// A place for dumps, in memory where there is such a file system.
class DumpPlace {
 public:
  DumpPlace();
  DumpPlace(const DumpPlace&) = delete;
  DumpPlace& operator=(const DumpPlace&) = delete;
  ~DumpPlace() { Clear(); }

  const std::string& path() const { return path_; }
  void Clear();
  struct File {
    std::string path;
    size_t bytes;
  };
  std::vector<File> Files() const;

 private:
  std::string path_;
};

RecordOptions StatsTo(const DumpPlace& place);
RecordOptions DumpTo(const DumpPlace& place);

// Timed runs borrow what they are given.
TimedSide RunsOf(GraphExecutor& executor, int repeats);
// One recorded run; its dump is removed afterwards.
TimedSide RecordedRun(DebugExecutor& executor, DumpPlace& place);
TimedSide ClockReadings(size_t count, int repeats);
// New files of these sizes below `place`, in new folders: opened, written in
// pieces of 1 MiB out of a block that stays in the caches, and closed.
TimedSide WritesOf(std::vector<DumpPlace::File> files, DumpPlace& place);

// Prints what the time of every node costs, in readings of the clock; returns
// whether that is within its limit. In debug_bench.cc.
bool BenchEveryTime(const std::string& name, const TimedNetwork& network);

}  // namespace nodewise
