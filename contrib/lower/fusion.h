#pragma once

#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"

namespace nodewise {

// Divides the operations of a network into the regions that become nodes, each
// in the network's order, and sorts the regions by their last operation. So
// every region reads only what regions before it make. Operations that make
// nothing are left out.
//
// With `fuse` an operation takes in those behind it that compute element by
// element: a convolution its bias, its batch normalisation, its activation and
// the sum of a residual block; a matrix product also a Gelu that is made of
// several operations. A value that is read outside, or is an output of the
// network, ends a region; so does a barrier.
std::vector<std::vector<OperationId>> FindRegions(const Network& network,
                                                  bool fuse);

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
