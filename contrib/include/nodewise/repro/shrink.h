#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Makes the inputs of a case simpler as long as its failure stays the same
// failure.

struct ShrinkOptions {
  // How often the node runs at most; 0: the case stays as it is.
  uint64_t most_runs = 64;
  // How much all runs may cost, in floating-point operations of the reference
  // and 50 for each element: a large node runs less often, but 5 times.
  double most_cost = 2e10;
  // How long all runs of a node that hangs may take together, in which each
  // takes as long as a node may.
  int64_t most_hanging_ms = 60'000;
};

// Tries, in this order, smaller shapes (where the functions are built in, so
// that they can be bound again), zeros and ones everywhere, fewer elements that
// are not zero, and small integers for the rest. Parameters stay as they are,
// since the fault may lie in how a kernel keeps them. A try counts if the node
// is wrong as before: in the same output, not finite or finite as before, and
// with the same pattern of wrong elements if there was one. The reference
// computes first, so that the candidate sees no inputs that the operator
// refuses.
//
// A node that crashes or hangs runs in a process of its own, and a try counts
// if it ends that in the same way: by the same signal, say. One that writes to
// memory that is not its own stays as it is.
//
// Nothing depends on chance: one case always becomes the same one. The inputs
// that the network gave are kept in ReproInput::original. A case that is not
// wrong, or is wrong in one run and not in the next, stays as it is.
absl::Status ShrinkCase(const ShrinkOptions& options, ReproCase* node_case);

}  // namespace nodewise
