#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Returns whether the node of a case can be bound to tensors of other sizes:
// its functions are built in, and it says what it computes.
bool CanBeResized(const ReproCase& node_case);

// Returns the case with inputs of these sizes, each the beginning of what it
// was, and without outputs. Fails with the error of the network if the node
// does not allow these sizes, and with kInvalidArgument if what it makes would
// be empty or of unknown size. REQUIRES: CanBeResized(), and a shape of as many
// sides, none of them longer, for each input.
absl::StatusOr<ReproCase> Resized(
    const ReproCase& node_case,
    const std::vector<std::vector<int64_t>>& shapes);

}  // namespace nodewise
