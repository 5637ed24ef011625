#pragma once

#include <optional>
#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// How rounding errors come into one output of a network that is made like a
// fused kernel: one operation, the source, rounds; what follows it computes
// element by element, and in the end its elements may be moved.
//
// So each element of the output depends on one of the source's, and to move
// that one by no more than its bounds allow moves the output by no more than
// the carried bounds (carried_bounds.h) allow. For these are the largest
// distances at the corners of the box that the inputs of each operation may lie
// in, and a point inside the box is not further away than some corner where
// the operation is monotonic, convex or concave in each of its inputs: all
// operations of IsElementwise() are within a range as small as rounding errors
// are. Operations beside the chain only enlarge the carried bounds, which are
// after each operation no less than that operation's own bounds, either.
struct RoundingChain {
  const Operation* source = nullptr;
  // The operations that depend on the source, in the order of the network; the
  // last of them makes the output. Empty if the source does.
  std::vector<const Operation*> followers;
  // The last so many of the followers are Transposes; no others are.
  size_t moves = 0;
  // Everything else that the output depends on is given to the network, but for
  // Transposes: then the carried bounds are those of the chain alone.
  bool stands_alone = true;

  // Returns the last operation that computes, the source if nothing else does.
  const Operation& LastComputing() const;
  // Returns whether only one follower, which computes, reads the result of the
  // operation of the chain. Then a kernel need not round it.
  bool IsHidden(const Network& network, const Operation& operation) const;
  // Returns the value that is moved, the output if nothing is.
  ValueId BeforeMoves() const;
  // Returns what must be kept of a run to compute the followers again: what the
  // source reads and makes, what followers read of others, what is moved, and
  // what followers make that have bounds of their own.
  std::vector<ValueId> Needs() const;
};

// Returns what the own bounds of a follower are at least; 0 if that is not
// known without computing them.
LeastBounds LeastBoundsOfFollower(const Operation& operation);

// Returns none for an output that is not made like that.
std::optional<RoundingChain> FindRoundingChain(const Network& network,
                                               ValueId output);

}  // namespace nodewise
