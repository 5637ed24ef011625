#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/tensors/tensor_sink.h"

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

// A run of a network with the reference evaluation of its operators, without
// bounds, and with those of InterpretCarryingBounds() for the tensors they are
// asked for. Most tensors are settled for much less
// (BoundSource::IsProvablyWithin()): where one operation rounds and what
// follows it computes element by element, as in what a kernel fuses. First with
// a bound that follows from the size of each number, then with the bounds of
// those elements alone that are left.
class BoundedRun {
 public:
  virtual ~BoundedRun() = default;

  virtual const std::vector<NDArray>& outputs() const = 0;
  // The bounds of an output; lives as long as this.
  virtual BoundSource& bounds(size_t output) = 0;
};

// Fails as Interpreter::Run(). The network must outlive what is returned; the
// inputs are held, and must stay as they are.
absl::StatusOr<std::unique_ptr<BoundedRun>> RunWithLazyBounds(
    const Network& network, std::vector<NDArray> inputs);

// Returns bounds on the error of a network as a whole, one for each output, for
// networks of any operations: it is run several times, each time with the
// results of its operations moved by as much as a correct kernel may be off,
// floats also by a rounding unless they are only moved or chosen: all upwards,
// all downwards, or each to its own side. What comes out moves by so much, and
// a bound is about ten times a usual distance. It is not proved, and holds for
// all usual kernels; both bounds are the same. NaN where an operation's own
// bound is not known, or one of the runs makes no finite number.
//
// `InterpretCarryingBounds()` proves bounds, for networks in which elements are
// computed each by itself. Fails as Interpreter::Run().
absl::StatusOr<std::vector<Bounds>> SampledBounds(
    const Network& network, const std::vector<NDArray>& inputs);

}  // namespace nodewise
