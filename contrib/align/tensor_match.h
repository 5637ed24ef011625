#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/layout.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_store.h"

namespace nodewise {

// A tensor as it was recorded with every set of inputs.
struct RecordedTensor {
  TensorFacts facts;
  std::vector<const TensorSpool*> spools;
  std::vector<size_t> places;  // TensorSpool::kept(), by spool.

  // Reads the contents, by set. Fails as TensorSpool::Load().
  absl::StatusOr<std::vector<NDArray>> Load() const;
};

// Return what was recorded of an entry of the graph, or of a value of the
// network: none if a set lacks it, or if its shape or type is another one with
// another set, since sizes that depend on the data have no layout.
std::optional<RecordedTensor> RecordedEntry(
    const GraphIndex& index, absl::Span<const RecordedPair> pairs,
    EntryId entry);
std::optional<RecordedTensor> RecordedValue(
    const Network& network, absl::Span<const RecordedPair> pairs, ValueId id);

// How far two tensors are apart, relative to the largest number of the
// network's, with the worst set of inputs.
struct Difference {
  double largest = 0;
  double root_mean_square = 0;
};

struct TensorMatch {
  Layout layout;
  double distance = 0;
  bool has_unknown_order = false;
};

// Returns the numbers of a tensor with every set of inputs.
std::vector<std::vector<double>> NumbersOf(absl::Span<const NDArray> tensors);

// Returns the largest finite number without its sign; 0 if there is none.
double LargestFinite(const std::vector<double>& numbers);

// Returns whether the statistics of both allow one to hold the numbers of the
// other, in any order. It is asked about all pairs, and reads nothing.
bool MayMatch(const TensorFacts& source, const TensorFacts& compiled);

// Returns whether a match is as good as the nearest one: rounding makes one of
// two equal tensors a little nearer than the other.
bool IsEquallyNear(double distance, double nearest);

// Compares one compiled tensor with tensors of the network, one after the
// other.
class TensorMatcher {
 public:
  // `tensors` are by set of inputs, compact and in host memory.
  TensorMatcher(TensorFacts facts, absl::Span<const NDArray> tensors);
  // Fails as TensorSpool::Load().
  static absl::StatusOr<TensorMatcher> Create(const RecordedTensor& compiled);

  const TensorFacts& facts() const { return facts_; }
  // Returns the nearest layout, if any is near enough with every set of inputs.
  // REQUIRES: MayMatch().
  std::optional<TensorMatch> Match(const TensorFacts& source,
                                   absl::Span<const NDArray> tensors) const;

  // MayMatchRounded() and MatchRounded() are for a tensor that matches nothing
  // as it is, but whose numbers are more coarsely rounded than its type would
  // have it, or are integers that stand for floats: a quantised tensor, say, or
  // one that is floats again. Such a match is less near. Numbers that
  // were made of these are as coarse, even if they look finer: then
  // AllowRoundoff() comes before.
  void AllowRoundoff(double roundoff);
  bool MayMatchRounded(const TensorFacts& source) const;
  std::optional<TensorMatch> MatchRounded(
      const TensorFacts& source, absl::Span<const NDArray> tensors) const;

  // Returns the match in that layout, if it is near enough.
  std::optional<TensorMatch> MatchIn(const Layout& layout,
                                     const TensorFacts& source,
                                     absl::Span<const NDArray> tensors) const;
  // Returns whether there are many different numbers: a tensor of few has the
  // numbers of many others.
  bool HasManyNumbers() const;
  // Returns whether all elements are one number, with all sets of inputs.
  bool IsOneNumber() const;

  // Returns the layouts in which the compiled tensor may be meant to hold the
  // source, though its numbers are wrong: the likeliest first, by how alike the
  // numbers are all the same, and by which layouts compilers use.
  std::vector<Layout> LikelyLayouts(const TensorFacts& source,
                                    absl::Span<const NDArray> tensors,
                                    size_t most) const;
  // Return the distance in that layout, however large it is.
  double DistanceIn(const Layout& layout,
                    absl::Span<const NDArray> tensors) const;
  double DistanceInSet(const Layout& layout, const NDArray& tensor,
                       size_t set) const;
  // `finite_alone`: of those elements that are finite in both.
  Difference DifferenceIn(const Layout& layout,
                          absl::Span<const NDArray> tensors,
                          bool finite_alone = false) const;
  // Returns how many times the way from `here` to `there` leads nearest to the
  // compiled tensor: the least squares of all sets together. 0 if it leads
  // nowhere.
  double StepTowards(const Layout& layout, absl::Span<const NDArray> here,
                     absl::Span<const NDArray> there) const;

 private:
  std::optional<TensorMatch> MatchWithin(
      double farthest, const TensorFacts& source,
      absl::Span<const NDArray> tensors) const;
  std::optional<TensorMatch> MatchQuantised(
      const TensorFacts& source, absl::Span<const NDArray> tensors) const;
  double Roundoff() const;
  double FarthestRounded(DLDataType source) const;

  TensorFacts facts_;
  std::vector<std::vector<double>> numbers_;  // By set of inputs.
  mutable std::optional<double> roundoff_;    // RoundoffOfNumbers().
};

// A tensor that the network's own run has made.
struct SourceTensor {
  ValueId value = kNoValue;
  RecordedTensor recorded;
};

// Returns the tensors that the compiled one is a part of along one of their
// sides, the nearest first; none if its few numbers are in many tensors. Fails
// as TensorSpool::Load().
absl::StatusOr<std::vector<EntryMatch>> FindWholes(
    const TensorMatcher& compiled, absl::Span<const SourceTensor> sources);

// Returns the tensors that the compiled one has joined along one of their
// sides, in their order there; none unless they are all of it. Fails as
// TensorSpool::Load().
absl::StatusOr<std::vector<EntryMatch>> FindParts(
    const TensorMatcher& compiled, absl::Span<const SourceTensor> sources);

}  // namespace nodewise
