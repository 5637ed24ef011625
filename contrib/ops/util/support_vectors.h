#pragma once

// Products of rows and support vectors; only for the files of linear models.

#include <vector>

#include "absl/types/span.h"
#include "contrib/ops/util/class_scores.h"
#include "nodewise/ops/linear_models.h"

namespace nodewise {

// x y + addend, as a kernel may calculate it in float32.
Approximate DotProduct(absl::Span<const double> x, absl::Span<const float> y,
                       double addend);
// The sum of products of numbers that are not exact themselves.
Approximate WeightedSum(absl::Span<const Approximate> x,
                        absl::Span<const float> weights, double addend);
// kernel(x, y). REQUIRES: three parameters, or none.
Approximate KernelOf(const ops::SupportVectors& op, absl::Span<const double> x,
                     absl::Span<const float> y);

// The probabilities of classes, given those that class i, and not class j, is
// right: pairs[i * classes + j]. Uses the algorithm of libsvm, which stops
// where it is near enough, so that it cannot be said how far a kernel may be
// off.
std::vector<double> ProbabilitiesOf(absl::Span<const double> pairs,
                                    size_t classes);

}  // namespace nodewise
