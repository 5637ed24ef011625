#pragma once

#include "contrib/lab/planter/spoiling.h"

namespace nodewise {

// How the kinds of held_out_faults.h are made: each returns ways to spoil a
// node, as the planter's own kinds do.

// How sums are added up (held_out_sums.cc).
absl::StatusOr<Spoilings> RestNotSummed(const FaultPlace&, RandomSource&);
absl::StatusOr<Spoilings> SaturatedSums(const FaultPlace&, RandomSource&);
// Where elements are read and written (held_out_memory.cc).
absl::StatusOr<Spoilings> WrappedIndex(const FaultPlace&, RandomSource&);
absl::StatusOr<Spoilings> OverwrittenInput(const FaultPlace&, RandomSource&);
// What is fused behind a product (held_out_epilogues.cc).
absl::StatusOr<Spoilings> WrongBroadcast(const FaultPlace&, RandomSource&);
absl::StatusOr<Spoilings> EarlyActivation(const FaultPlace&, RandomSource&);

}  // namespace nodewise
