#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/time_limit.h"
#include "nodewise/align/layout.h"

namespace nodewise {

// A guess about what is wrong: this entry should hold this tensor.
struct Guess {
  EntryId entry{};
  ValueId value = kNoValue;
  Layout layout;
  double distance = 0;
  // The share of the next nodes that are explained then.
  double share = 0;
  // How many of these hold nothing but what they read.
  size_t idle = 0;
  // Tensors of the network that are made of the same numbers, of which it may
  // be meant to be any just as well.
  std::vector<ValueId> alike = {};
  // It is an output whose shape is another one than the network's.
  bool has_output_shape = false;
};

// Returns the first node that is not fine, though all that it has read is.
std::optional<NodeId> FirstSuspect(const WalkScene& scene,
                                   const GraphWalk& walk);

struct BlameFound {
  std::optional<Guess> guess;  // None if no guess explains anything.
  bool gave_up = false;        // There are more, for which there was no time.
};

// Tries which tensor the entries of the suspect, and those behind it that are
// not explained either, should have held: the right guess explains the nodes
// that follow. Fails as GraphWalk.
absl::StatusOr<BlameFound> SearchBlame(const WalkScene& scene,
                                       const GraphWalk& walk, NodeId suspect,
                                       const TimeLimit& limit);

// Returns the first entry that seems to be on the way between others and is a
// tensor of the network with an error that hardly shows: taken for that tensor,
// it explains the nodes behind it better. `share` is 1. Fails as GraphWalk.
absl::StatusOr<std::optional<Guess>> FindNearMiss(const WalkScene& scene,
                                                  const GraphWalk& walk);

// Returns what the entry may be meant to be, the likeliest first: up to so many
// tensors of the network, each in a few layouts, and then as many that it has
// not the size of. Fails as GraphWalk.
absl::StatusOr<std::vector<Guess>> GuessesFor(const WalkScene& scene,
                                              const GraphWalk& walk,
                                              EntryId entry, size_t most,
                                              const TimeLimit& limit);

}  // namespace nodewise
