#pragma once

// Scores of classical models, an attribute `post_transform` and the class that
// wins. ONNX says of these little more than their names; what is done here is
// what onnxruntime does, but for cases in which it contradicts the text
// (tests/onnx/ort_deviations.md).

#include <cstdint>
#include <optional>
#include <vector>

#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/ops/post_transform.h"

namespace nodewise {

using ops::PostTransform;
template <>
struct Words<PostTransform> {
  static constexpr std::pair<PostTransform, std::string_view> kAll[] = {
      {PostTransform::kNone, "NONE"},
      {PostTransform::kSoftmax, "SOFTMAX"},
      {PostTransform::kLogistic, "LOGISTIC"},
      {PostTransform::kSoftmaxZero, "SOFTMAX_ZERO"},
      {PostTransform::kProbit, "PROBIT"}};
};

// A number, and how far a kernel that calculates in float32 may be off.
struct Approximate {
  double value = 0;
  double proved = 0;
  double expected = 0;

  static Approximate FromSum(const SumOfTerms& sum);
  // With one more rounding to float32.
  Approximate Rounded() const;
  SumBound bound() const { return {proved, expected}; }
};
Approximate Plus(const Approximate& a, const Approximate& b);
Approximate Times(const Approximate& a, double factor);
// f(x), monotonous or convex near x, by a kernel that is off by so many units
// in the last place itself.
Approximate ApplyWithError(double (*f)(double x, double parameter),
                           double parameter, const Approximate& x, double ulps);

// The scores of one row.
using Scores = std::vector<Approximate>;

// What a binary classifier with one score says of the other class.
enum class OtherClass { kComplement, kNegative };  // 1 - x, or -x.

// One score alone stays as it is, unless the transform is PROBIT.
void Transform(PostTransform transform, Scores* scores);
// Turns the one score, of the second class, into two.
void TransformToTwo(PostTransform transform, OtherClass other, Scores* scores);

// A class, or one of several since the scores are too close to say.
struct Winner {
  size_t index = 0;
  bool is_open = false;
};
// Returns the largest score; the first one wins among equals.
Winner Largest(const Scores& scores);
// Returns 1 if the score is above the threshold, else 0.
Winner Above(double threshold, const Approximate& score);

// Returns the types of a classifier's outputs: a label for each row, and so
// many scores.
absl::StatusOr<OutputInfos> InferClasses(const Dim& rows, const Dim& scores);

// Writes rows as output `i`, of float32, with their bounds.
absl::Status StoreScores(EvalArgs& args, size_t i,
                         absl::Span<const Scores> rows);
// Writes labels as output `i`, of int64; `labels` has one for each index that
// wins.
absl::Status StoreLabels(EvalArgs& args, size_t i,
                         absl::Span<const Winner> winners,
                         absl::Span<const int64_t> labels);

}  // namespace nodewise
