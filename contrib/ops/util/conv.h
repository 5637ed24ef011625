#pragma once

// What the convolutions share; only for their files.

#include <vector>

#include "absl/functional/function_ref.h"
#include "contrib/ops/util/window_rules.h"
#include "nodewise/kernels/tap_sums.h"
#include "nodewise/kernels/window_columns.h"
#include "nodewise/op/op_row.h"
#include "nodewise/ops/conv.h"

namespace nodewise {

constexpr auto ConvFields() {
  using ops::ConvAttributes;
  return FieldList(Field<&ConvAttributes::auto_pad>("auto_pad"),
                   Field<&ConvAttributes::dilations>("dilations"),
                   Field<&ConvAttributes::group>("group"),
                   Field<&ConvAttributes::kernel_shape>("kernel_shape"),
                   Field<&ConvAttributes::pads>("pads"),
                   Field<&ConvAttributes::strides>("strides"));
}

// The products of a convolution: for each image and each group of channels, the
// weights as rows against the columns of the image.
struct ConvProducts {
  int64_t images = 0;
  int64_t groups = 1;
  ProductSizes sizes;
  // Weights, group by group; row m and step k of a group at m * depth + k.
  Factor weights;
  PackStrips columns;  // Item by item: image * groups + group.
  // Another way to compute the products; null if it is not faster.
  const TapSums* taps = nullptr;
};
// Multiplies, adds the bias (input `bias`, if given) and rounds into output 0;
// also sets bounds if they are wanted. At most `terms` terms of each sum are
// not 0.
absl::Status StoreConv(EvalArgs& args, const ConvProducts& products,
                       size_t bias, double terms);

// Fails unless input i has one dimension with `expected` elements.
absl::Status RequireLength(const Inputs& in, size_t i, const Dim& expected);

absl::Span<const OperatorDef> ConvTransposeOperators();
absl::Span<const OperatorDef> DeformConvOperators();

}  // namespace nodewise
