#pragma once

// What the convolutions share; for their files alone.

#include <vector>

#include "absl/functional/function_ref.h"
#include "contrib/ops/window_columns.h"
#include "contrib/ops/window_rules.h"

namespace nodewise {

// The products of a convolution: for each image and each group of channels, the
// weights as rows against the columns of the image.
struct ConvProducts {
  int64_t images = 0;
  int64_t groups = 1;
  ProductSizes sizes;
  // Weights, group by group; row m and step k of a group at m * depth + k.
  Factor weights;
  PackStrips columns;  // Item by item: image * groups + group.
};
// Multiplies, adds the bias (input `bias`, if there) and rounds into the output
// 0; with bounds where these are wanted. `terms` of each sum are not 0 by
// construction.
absl::Status StoreConv(EvalArgs& args, const ConvProducts& products,
                       size_t bias, double terms);

// input i: is not of one dimension with as many elements as `expected`.
absl::Status RequireLength(const Inputs& in, size_t i, const Dim& expected);

absl::Span<const OperatorDef> ConvTransposeOperators();
absl::Span<const OperatorDef> DeformConvOperators();

}  // namespace nodewise
