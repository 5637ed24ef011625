#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// Counts something around every node. Read() is called before the first node
// and after each one, on the thread that runs the graph; a node's count is the
// difference between two readings.
class Collector {
 public:
  virtual ~Collector() = default;
  // Returns the names of what is counted, with the unit where there is one.
  virtual std::vector<std::string> Names() const = 0;
  // Begins counting. An error says what the system does not allow.
  virtual absl::Status Start() = 0;
  // Writes the totals since Start(), which never decrease, in the order of
  // Names(). REQUIRES: `values` has one place for each name.
  virtual void Read(absl::Span<double> values) = 0;
  virtual void Stop() = 0;
};

// Returns a collector of the processor's counters, read by perf_event_open(2):
// "cycles", "instructions", "cache-misses", "branch-misses", "page-faults", ...
//
// It counts in all threads that this process has when Start() is called and in
// those that they create later: the workers of thread pools are included, and
// so is everything else that the process does meanwhile. The processor's events
// are counted outside of the kernel only. Where more events are asked for than
// there are counters, the kernel takes turns counting them and the figures are
// scaled up, so that they mean little for a node of less than a few
// milliseconds; ask for four or fewer.
//
// The events are tried out at once. Fails with kUnavailable, with the event,
// what the system said and what would allow it, where the kernel refuses; with
// kInvalidArgument, with the nearest name, for an unknown name, for a name
// given twice and for no name at all.
absl::StatusOr<std::unique_ptr<Collector>> PerfCollector(
    absl::Span<const std::string> events);

// Returns the names that PerfCollector knows.
std::vector<std::string> PerfEventNames();

}  // namespace nodewise
