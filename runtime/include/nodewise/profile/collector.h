#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// Counts something around every node. Read() is called before the first node
// and after each one, on the thread that runs the graph; the difference of two
// readings is the node's.
class Collector {
 public:
  virtual ~Collector() = default;
  // Names of what is counted, with the unit where there is one.
  virtual std::vector<std::string> Names() const = 0;
  // Begins counting. An error says what the system does not allow.
  virtual absl::Status Start() = 0;
  // Writes the totals since Start(), which never fall, in the order of Names().
  // REQUIRES: `values` has one place a name.
  virtual void Read(absl::Span<double> values) = 0;
  virtual void Stop() = 0;
};

// The processor's counters by perf_event_open(2): "cycles", "instructions",
// "cache-misses", "branch-misses", "page-faults", ...
//
// Counts all threads that this process has when Start() is called and those
// that they create later: also the workers of thread pools, and also whatever
// else the process does meanwhile. The processor's events are counted outside
// of the kernel only. Where more events are asked for than there are counters,
// the kernel counts them by turns and the figures are scaled up, so that those
// of a node of less than some milliseconds mean little; ask for four or fewer.
//
// The events are tried out at once. kUnavailable, with the event, what the
// system said and what would allow it, where the kernel does not let us;
// kInvalidArgument, with the nearest, for a name it does not know, for a name
// given twice and for no name at all.
absl::StatusOr<std::unique_ptr<Collector>> PerfCollector(
    absl::Span<const std::string> events);

// The names that PerfCollector knows.
std::vector<std::string> PerfEventNames();

}  // namespace nodewise
