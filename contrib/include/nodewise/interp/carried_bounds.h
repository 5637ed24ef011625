#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// A tensor as the reference makes it, and how far a correct implementation may
// be away from it.
struct BoundedTensor {
  NDArray tensor;
  Bounds bounds;
};

// Runs a network with the reference evaluation of its operators, and returns
// its outputs with bounds on the error of the network as a whole. This judges a
// node that several operations are fused into, where the tensors between them
// cannot be seen: the error that an operation may make is carried through those
// that follow it. InterpretOptions::with_bounds is about each operation alone
// instead, on equal inputs.
//
// Inputs and constants are taken as exact. What is between operations may be
// rounded to its type or not, as it is in a fused multiply-add. Through
// operations that compute element by element (IsElementwise()), errors are
// carried by computing them at the ends of the range that each input may lie
// in, with every combination of ends. That is exact where the operator is
// monotonic in each input or nearly straight over a range as small as rounding
// errors are, that is for all of these operators at all places but poles.
// Elsewhere, and near poles, the bounds are NaN: none is known. A Transpose
// moves bounds with their elements. Behind a batch normalization they allow for
// weights that a kernel has multiplied by its factors and rounded, before the
// products are summed up.
//
// Fails as Interpreter::Run().
absl::StatusOr<std::vector<BoundedTensor>> InterpretCarryingBounds(
    const Network& network, std::vector<NDArray> inputs);

// Carries the bounds of one value through operations that follow it in the
// network, each of which has one output, as InterpretCarryingBounds() does.
// `known` has that value, with the bounds of what made it, and what else the
// operations read that is not a constant; that is taken as exact. The tensors
// need not be those of a whole run: some of the elements are enough. Returns
// what the last operation makes. Fails as Evaluate().
absl::StatusOr<BoundedTensor> CarryBounds(
    const Network& network, ValueId from,
    absl::Span<const Operation* const> operations,
    std::map<ValueId, BoundedTensor> known);

}  // namespace nodewise
