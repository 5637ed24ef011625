#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpack/dlpack.h"
#include "nodewise/compare/metrics.h"

namespace nodewise {

// The wrong elements of a tensor may have something in common, which says where
// in a kernel to look. All functions are pure; any thread may call them.

enum class FailureShape {
  // Those before kRelated say what was done to all elements.
  kScaled,         // All is multiplied by one factor.
  kOffset,         // One number is added to all.
  kAffine,         // Both: all is a * x + b.
  kTransposed,     // The right elements, with axes in another order.
  kReversed,       // The right elements, from the end on along an axis.
  kShifted,        // The right elements, one place further on along an axis.
  kRelated,        // Several of these at once, or a factor for each channel.
  kPrecisionLost,  // All are numbers of a shorter type.
  kUnwritten,      // Wrong elements are all one number: 0, most of the time.
  kUninitialised,  // Wrong elements are of sizes that no calculation gives.
  kOneSlice,       // Only in one part along an axis: a channel, a row, a tile.
  kLastLanes,      // Only behind the last whole vector of a loop.
  kEveryNth,       // Only at every n-th element.
  kBorder,         // Only at the border of the last axes or those before.
  kStaleCopy,      // Equal to another tensor of the reference.
};
// Returns "scaled", "last-lanes", ...: stable, for documents.
std::string_view NameOf(FailureShape shape);

struct FailurePattern {
  FailureShape shape{};
  std::string words;      // "only at index 3 of axis 1"
  std::string type = {};  // For kPrecisionLost: "float16".
};

// How many elements are how many representable numbers away: equal, 1, 2, 3 to
// 4, 5 to 8, ... Without elements that are not finite on both sides.
using UlpHistogram = std::vector<uint64_t>;

struct DifferenceDetails {
  std::vector<FailurePattern> patterns;
  UlpHistogram ulps;  // Empty unless the type is a float of 16 bits or more.
};

// Looks at two tensors a second time. Elements beyond the tolerance count as
// wrong; if none is, those whose error is no less than an eighth of the
// largest. A pattern is only claimed if wrong elements drawn at random would
// show it in one case of a million at most. REQUIRES: the tensors and their
// metrics are those of MeasureDifference(), with one type, and differ.
DifferenceDetails DescribeDifference(const DLTensor& expected,
                                     const DLTensor& actual,
                                     const Metrics& metrics,
                                     Tolerance tolerance);

// How two programs may prepare one and the same input: other orders of axes and
// channels, other scales, or several of these at once. All functions are pure;
// any thread may call them.

// The steps that make a tensor of another one that has as many elements.
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
std::string DescribeGivenInput(const DifferenceDetails& details);

}  // namespace nodewise
