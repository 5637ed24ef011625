#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A network to be run with these inputs, in the order of its own.
struct ForeignCase {
  const Network* network = nullptr;
  absl::Span<const NDArray> inputs;
};

// Returns whether the program runs several cases in one start, which it says
// when it is asked to run this one as usual. A program that cannot be run, or
// refuses the case, does not.
bool TakesForeignCases(const ForeignCommand& command,
                       const ForeignLimits& limits, const ForeignCase& one);

// Runs all cases in one start of a program that takes them. Cases of one
// network that follow each other share a model. Returns the outputs of each in
// the order of its network's, or why there are none: kUnavailable where the
// program refuses the case, kDataLoss where what it says does not fit. Fails if
// the program as a whole does, so that nothing is known of any case.
absl::StatusOr<std::vector<absl::StatusOr<std::vector<NDArray>>>>
RunForeignCases(const ForeignCommand& command, const ForeignLimits& limits,
                absl::Span<const ForeignCase> cases);

}  // namespace nodewise
