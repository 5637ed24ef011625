#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "contrib/align/blame_search.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/time_limit.h"

namespace nodewise {

// Faults of nodes whose result is a tensor of the network, only not the one
// that their readers need: a Less where a Greater is meant, of a network that
// has that Less as well, or two outputs that are exchanged. Each is taken for
// what it is, and its readers look wrong.
//
// Returns the guesses about what the suspect reads with which it is right: one
// that an entry should hold a tensor that no entry holds, or two that exchange
// the tensors of two entries, if more than one reader is right then. Empty if
// there are none. Fails as GraphWalk.
absl::StatusOr<std::vector<Guess>> FindExchangedBefore(const WalkScene& scene,
                                                       const GraphWalk& walk,
                                                       NodeId suspect,
                                                       const TimeLimit& limit);

}  // namespace nodewise
