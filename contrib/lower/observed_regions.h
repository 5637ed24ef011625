#pragma once

#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"

namespace nodewise {

// Part of a network between values that can be seen.
struct ObservedRegion {
  std::vector<OperationId> operations;  // In their order.
  std::vector<ValueId> outputs;  // Those that can be seen, or are needed.
};

// Puts operations together that pass values to each other which cannot be seen,
// and the operations between them. Every region stands behind those that it
// reads. Operations of which nothing is seen are left out. The network's
// outputs can always be seen.
std::vector<ObservedRegion> FindObservedRegions(const Network& network,
                                                const IsObserved& is_observed);

}  // namespace nodewise
