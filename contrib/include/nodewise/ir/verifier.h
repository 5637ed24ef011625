#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What makes a network valid, in three parts.
enum class FaultPart {
  kStructure,    // Links both ways, no cycle, producers first, reachability.
  kInformation,  // Names, types as inferred, attributes within their limits.
  kRunTime,      // What a target can run.
};

struct NetworkFault {
  FaultPart part = FaultPart::kStructure;
  bool is_warning = false;  // A penalty; the network is valid all the same.
  std::string where;        // "operation Conv_3: input 1 (w)"
  std::string found;
  std::string expected;  // May be empty.
  std::string hint;      // May be empty.

  std::string ToString() const;  // "where: found, expected expected (hint)"
};

// What a target can do with an operation, for passes to ask instead of guessing
// from its kind.
struct Support {
  bool can = true;
  std::string why_not;                 // The reason, unless `can`.
  std::vector<std::string> penalties;  // Why it would not run at its best.
};
struct Target {
  std::string name;  // "oneDNN"
  Support (*ask)(const Network& network, const Operation& operation) = nullptr;
};

// Returns every fault, in the order of the parts, then of the operations:
// broken links with both ends, cycles as paths, what no output depends on and
// outputs that depend on nothing, types other than those inferred. With
// targets, also what they refuse and what is slow on them. Never fails,
// whatever the data is.
std::vector<NetworkFault> Verify(const NetworkData& data,
                                 absl::Span<const Target> targets = {});

// Returns OK if no fault is an error; else kDataLoss with the first error, and
// how many there are.
absl::Status ToStatus(absl::Span<const NetworkFault> faults);

// Returns all faults as text under the three headings; a part without faults
// says so.
std::string FaultReport(absl::Span<const NetworkFault> faults);

}  // namespace nodewise
