#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the part of a network between two cuts as a network of its own with
// the same names: the operations that make `to` out of `from`, and those that
// make something out of constants alone. Constants are copied, and all other
// values that are needed become inputs, after those of `from`. An empty `from`
// means those of the network's inputs that are needed.
//
// Fails with kInvalidArgument for numbers that name no tensor, for an empty
// `to` and for a value of `from` that `to` does not depend on.
absl::StatusOr<Network> ExtractNetwork(const Network& network,
                                       absl::Span<const ValueId> from,
                                       absl::Span<const ValueId> to);

}  // namespace nodewise
