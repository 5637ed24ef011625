#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/align/align_limits.h"
#include "contrib/align/graph_walk.h"

namespace nodewise {

// Searches for the guess that explains what a walk has not explained. All fail
// as GraphWalk does.

using FoundGuess = absl::StatusOr<std::optional<Guess>>;
using FoundGuesses = absl::StatusOr<std::vector<Guess>>;

// Returns the first node that is not fine, though all that it has read is.
std::optional<NodeId> FirstSuspect(const GraphWalk& walk);

struct BlameFound {
  std::optional<Guess> guess;  // None if no guess explains anything.
  bool gave_up = false;        // There are more, for which there was no time.
};

// Tries which tensor the entries of the suspect, and those behind it that are
// not explained either, should have held: if the entry's numbers are taken for
// the right tensor, the reference makes of them what the nodes behind it made.
absl::StatusOr<BlameFound> SearchBlame(const GraphWalk& walk, NodeId suspect,
                                       const TimeLimit& limit);

// Returns the first entry that seems to be on the way between others and is a
// tensor of the network with an error that hardly shows: taken for that tensor,
// it explains the nodes behind it better. `share` is 1.
FoundGuess FindNearMiss(const GraphWalk& walk);

// Returns what the entry may be meant to be, the likeliest first: up to so many
// tensors of the network, each in a few layouts, and then as many that it has
// not the size of.
FoundGuesses GuessesFor(const GraphWalk& walk, EntryId entry, size_t most,
                        const TimeLimit& limit);

// Returns whether a tensor of the network of that shape may lie in one of that
// compiled shape.
bool MayFitShape(const std::vector<int64_t>& source,
                 const std::vector<int64_t>& compiled);

// The other functions are about nodes whose result is a tensor of the network,
// only not the one that it should be: each is taken for what it is, and looks
// healthy (misread_tensors.cc).

// A node that only hands on or moves what it reads may have been meant to
// compute something, or to move it otherwise. Then the node that reads the
// result looks wrong. Returns the guess about such a node before the suspect
// with which the suspect is right.
FoundGuess FindMovedBefore(const GraphWalk& walk, NodeId suspect,
                           const TimeLimit& limit);

// The result may be another tensor than the readers need: a Less where a
// Greater is meant, of a network that has that Less as well, or two outputs
// that are exchanged. Returns the guesses about what the suspect reads with
// which it is right: one that an entry should hold a tensor that no entry
// holds, or two that exchange the tensors of two entries, if more than one
// reader is right then. Empty if there are none.
FoundGuesses FindExchangedBefore(const GraphWalk& walk, NodeId suspect,
                                 const TimeLimit& limit);

// Returns a guess about the first output of the graph that holds something else
// than the network's output of its place, or that in another order or shape,
// but for blocks (parts of a network have outputs in such layouts), though no
// entry was blamed for it: about its node, or one before it that has moved what
// it read. `share` is 1.
FoundGuess FindWrongOutput(GraphWalk& walk, const TimeLimit& limit);

// Returns a guess about each output of the graph that no input changes and that
// is not the network's output of its place.
FoundGuesses FindWrongConstants(GraphWalk& walk);

// Returns by place which entry of the graph is which output of the network.
// Empty if the two have not as many outputs: without what is opaque, a network
// has other ones.
std::vector<std::pair<EntryId, ValueId>> PairedOutputs(const GraphWalk& walk);

}  // namespace nodewise
