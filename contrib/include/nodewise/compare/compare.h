#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/tensors/tensor_key.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Compares tensors with those of a reference, element by element, and says
// whether what differs may be rounding: by the bounds that come with the
// reference's tensors. Knows tensors and nothing of graphs. All functions are
// pure; any thread may call them.

// A verdict on one tensor; each is worse than those before it.
enum class Verdict {
  kSame,         // Every element is equal (-0 and 0 are, and NaN and NaN).
  kWithinBound,  // What differs may be rounding.
  // Elements differ that no bound is known for; the others are as above.
  kNotJudged,
  // An element is further away than any correct kernel may be.
  kOutsideBound,
  // Where one side has NaN or an infinity, the other has something else.
  kNonFinite,
};
// Returns "same", "within bound", ...
std::string_view NameOf(Verdict verdict);
// Returns whether the tensor is wrong: the last two.
bool IsWrong(Verdict verdict);

// One element where the two sides differ.
struct BoundedDifference {
  uint64_t element = 0;  // Row by row.
  double expected = 0, actual = 0;
  double error = 0;  // |actual - expected|; not a number for kNonFinite.
  double bound = 0;  // The proved one; NaN if none is known.
};

struct TensorComparison {
  TensorKey key;  // The reference's.
  Verdict verdict = Verdict::kSame;
  uint64_t elements = 0;
  uint64_t different = 0;
  uint64_t outside = 0;        // Beyond the proved bound.
  uint64_t unexpected = 0;     // Beyond the bound that holds in practice.
  uint64_t without_bound = 0;  // Different, and no bound is known.
  uint64_t non_finite = 0;     // kNonFinite.
  // The element that decides: of those that made the verdict, the one with the
  // largest error for its bound (the first of equals). Means nothing if nothing
  // differs.
  BoundedDifference worst;
  double largest_error = 0;  // Over all elements that are finite.
  // The factor by which the reference comes nearest to what was found, by least
  // squares: 1.01 if all is one per cent too large. 1 if nothing differs; NaN
  // if there is none.
  double scale = 1;
};

// Returns the largest error as a multiple of its bound: above 1 is wrong. 0 if
// nothing differs, infinity where a bound of 0 is exceeded or something is not
// finite.
double ErrorOverBound(const TensorComparison& comparison);

// Compares a tensor with the reference's, whose bounds say how much it may be
// off; without them only what is equal is judged. Fails with kInvalidArgument,
// naming both, for different shapes or types, with kNotFound for an item
// without a tensor, and with kUnimplemented for types that have no numbers
// unless all bytes are equal.
absl::StatusOr<TensorComparison> CompareTensors(const TensorItem& reference,
                                                const DLTensor& candidate);

// A tensor that was not compared, and the reason.
struct SkippedTensor {
  TensorKey key;
  std::string why;
};

struct Comparison {
  std::vector<TensorComparison> tensors;  // In the reference's order.
  std::vector<SkippedTensor> skipped;
};

// Compares everything that both sources have under the same key. What only one
// has, or cannot be compared, is skipped with its reason. The candidate's
// tensors are all held in memory meanwhile. Fails as Visit() does, and with
// kFailedPrecondition, naming both sources, if there is nothing to compare.
absl::StatusOr<Comparison> CompareSources(TensorSource& reference,
                                          TensorSource& candidate);

}  // namespace nodewise
