#pragma once

#include <cstddef>
#include <string>

#include "nodewise/runtime/debug_executor.h"
#include "tests/bench/debug_networks.h"
#include "tests/bench/ratio.h"

namespace nodewise {

// What is timed of the debug executor, and what it is held against.

// Functions that are called.
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
  // What the files hold.
  size_t Bytes() const;

 private:
  std::string path_;
};

RecordOptions StatsTo(const DumpPlace& place);
RecordOptions DumpTo(const DumpPlace& place);

// Timed runs borrow what they are given.
TimedSide RunsOf(GraphExecutor& executor, int repeats);
// One run a time; the dump that it leaves is removed after it.
TimedSide RecordedRun(DebugExecutor& executor, DumpPlace& place);
TimedSide ClockReadings(size_t count, int repeats);

// Of the time of every node, in readings of the clock: one for each, and some.
inline constexpr double kTimingLimit = 1.2;
// Prints what timing every node costs in such readings; returns whether it is
// within the limit.
bool BenchTiming(const std::string& name, const Network& network, double limit);

}  // namespace nodewise
