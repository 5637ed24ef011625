#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

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
