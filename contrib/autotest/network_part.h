#pragma once

#include <set>
#include <vector>

#include "nodewise/autotest/configuration.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns what some operations of a network read and none of them makes, each
// once, but for constants.
std::vector<ValueId> ReadFromOutside(const Network& network,
                                     const std::set<OperationId>& part);

// Returns an input of this type. Integers are places, most of the time, and
// therefore 0 or 1. REQUIRES: type.is_static().
CaseInput InputOfType(const TensorType& type);

}  // namespace nodewise
