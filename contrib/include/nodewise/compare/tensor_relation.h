#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dlpack/dlpack.h"
#include "nodewise/compare/failure_shape.h"

namespace nodewise {

// How two programs may prepare one and the same input: other orders of axes and
// channels, other scales, or several of these at once. All functions are pure;
// any thread may call them.

// What makes a tensor of another one that has as many elements.
struct TensorRelation {
  // The axes of what is expected, in the order in which they lie in memory
  // there; empty if that is the same.
  std::vector<size_t> order;
  // An axis of what is expected that is turned round.
  std::optional<size_t> reversed;
  // All is times a factor plus a number: none, one for all, or one for each
  // index of an axis of what is expected.
  std::vector<double> factors, offsets;
  std::optional<size_t> axis;

  // Returns how many things are done; several factors count twice.
  size_t Steps() const;
};

// Returns the relation with the fewest steps that explains all but a
// thousandth of how the elements vary: no steps where they are alike in another
// shape or type. None if there isn't any. Large tensors are judged by a sample
// of some hundred thousand elements.
std::optional<TensorRelation> FindRelation(const DLTensor& expected,
                                           const DLTensor& actual);

// Returns "what is expected, with the axes in the order 0, 2, 3, 1 (channels
// last), and times 255".
std::string WordsOf(const TensorRelation& relation, const DLTensor& expected);

// Returns what patterns say of a tensor that a network is given, and does not
// compute: how the host has made it, or that nothing relates the two.
std::string WordsOfGiven(const DifferenceDetails& details);

}  // namespace nodewise
