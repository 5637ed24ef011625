#pragma once

#include <limits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// How far a correct kernel may be off in each element of one tensor: proved,
// and in practice (Bounds of nodewise/op/evaluate.h). They are valid for as
// long as the object that handed them out says.
struct BoundSpans {
  absl::Span<const double> proved;
  absl::Span<const double> expected;
};

// How far an element may be off if no bound is known for it:
// |actual - expected| up to absolute + relative * |expected|.
struct UnboundedLimit {
  double absolute = std::numeric_limits<double>::infinity();
  double relative = 0;
};

// The bounds of one tensor of a reference, worked out when they are asked for.
// All of them may cost several times what the tensor did, and whether another
// tensor keeps within them can mostly be told for much less. Lives as long as
// what the tensor was made of. Not thread-safe.
class BoundSource {
 public:
  virtual ~BoundSource() = default;

  // Returns true only if it is certain that no element of `actual` is further
  // from the reference's than both bounds allow, as far as they are known for
  // it, and that a proved one is known for each that is off by more than
  // `unbounded` says: All() would say so, too. False says nothing. REQUIRES:
  // `actual` has the shape and type of the reference's tensor, is compact, in
  // host memory, and differs only in elements that are finite on both sides.
  virtual absl::StatusOr<bool> IsSurelyWithin(
      const DLTensor& actual, const UnboundedLimit& unbounded) = 0;

  // Returns the bounds of all elements, valid as long as this is.
  virtual absl::StatusOr<BoundSpans> All() = 0;
};

}  // namespace nodewise
