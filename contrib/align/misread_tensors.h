#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/align/blame_search.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/time_limit.h"

namespace nodewise {

// Faults of nodes whose result is a tensor of the network, only not the one
// that it should be: each is taken for what it is, and looks healthy.

// A node that only hands on or moves what it reads may have been meant to
// compute something, or to move it otherwise. Then the node that reads the
// result looks wrong. Returns the guess about such a node before the suspect
// with which the suspect is right. Fails as GraphWalk.
absl::StatusOr<std::optional<Guess>> FindMovedBefore(const WalkScene& scene,
                                                     const GraphWalk& walk,
                                                     NodeId suspect,
                                                     const TimeLimit& limit);

// Returns a guess about the first output of the graph that holds something else
// than the network's output of its place, or that in another order or shape,
// but for blocks (parts of a network have outputs in such layouts), though no
// entry was blamed for it: about its node, or one before it that has moved what
// it read. `share` is 1. Fails as GraphWalk.
absl::StatusOr<std::optional<Guess>> FindWrongOutput(const WalkScene& scene,
                                                     GraphWalk& walk,
                                                     const TimeLimit& limit);

// Returns a guess about each output of the graph that no input changes and that
// is not the network's output of its place. Fails as GraphWalk.
absl::StatusOr<std::vector<Guess>> FindWrongConstants(const WalkScene& scene,
                                                      GraphWalk& walk);

}  // namespace nodewise
