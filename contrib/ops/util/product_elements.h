#pragma once

// What bounds need of single elements of a matrix product, where all of them
// would take twice as long as the product itself.

#include "absl/types/span.h"
#include "nodewise/kernels/matrix_product.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// Sets `bounds->proved` to the sums of the absolute values of the terms of each
// element and `bounds->expected` to those of their squares, in the order of the
// elements, in threads. Element `e` is the one in column e % columns of row e /
// columns, the rows of all items counted one after the other. The functions are
// those of MultiplyMatrices(); they are asked for one row, and for a few
// columns in one strip, at a time. REQUIRES: the elements are in ascending
// order.
void SumTermsAt(const ProductSizes& sizes, PackStrips left, PackStrips right,
                absl::Span<const int64_t> elements, Bounds* bounds);

}  // namespace nodewise
