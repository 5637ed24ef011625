#pragma once

// What a gradient is made of: the values that it goes through, and operators
// as what they are in simpler ones.

#include <set>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise::gradient {

bool IsFloatValue(const Network& network, ValueId id);
bool ReadsAny(const Operation& operation, const std::set<ValueId>& values);
// Returns whether the operation has no gradient to go on with, since it is
// constant nearly everywhere.
bool IsZero(const Operation& operation);

// Returns the values that depend on these through floats, and these.
std::set<ValueId> PathFrom(const Network& network,
                           absl::Span<const ValueId> from);

// Writes each operation that depends on these values and has a definition in
// simpler operators. Fails as GradientOf does.
absl::Status ExpandDefinitions(absl::Span<const ValueId> from,
                               Network* network);

}  // namespace nodewise::gradient
