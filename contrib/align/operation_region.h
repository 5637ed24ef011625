#pragma once

#include <vector>

#include "contrib/align/graph_walk.h"

namespace nodewise {

// Returns the operations that make the value of what the node reads, in the
// order of the network: the node, with those before it that hold no tensor of
// the network.
// - What is found elsewhere and not read is made by the node itself, if
//   it reads what that is made of, a few operations before.
// - Where a tensor may be any of several that are made of the same numbers, and
//   the node reads fewer of these and what they are made of, it may make one
//   itself.
// - `with_moves`: what is held in another order by an entry that holds what it
//   was made of as well, may be meant to be moved.
std::vector<OperationId> RegionOf(const WalkScene& scene, const GraphWalk& walk,
                                  ValueId value, NodeId node,
                                  bool with_moves = false);

}  // namespace nodewise
