#pragma once

// Convolutions with few outputs for each group of channels, as depthwise ones
// are: their sums, tap by tap. A matrix product would read each of its columns
// once or twice, which does not pay for making them.

#include <cstdint>

#include "dlpack/dlpack.h"
#include "nodewise/kernels/matrix_product.h"
#include "nodewise/kernels/window_columns.h"

namespace nodewise {

// What is summed up; all of it outlives the calls.
struct TapSums {
  const WindowGeometry& geometry;
  int64_t channels;  // That each item reads.
  DLDataType dtype;  // A float.
  const void* x;     // The items' channels, one item after the other.
};

// Whether SumByTaps() does what the matrix product of these sizes does, and is
// faster. Does not depend on the number of threads.
bool IsFasterByTaps(const TapSums& sums, const ProductSizes& sizes);

// Calculates what MultiplyMatrices() calculates of the weights as the left
// factor and the window's columns as the right one.
// REQUIRES: IsFasterByTaps().
void SumByTaps(const TapSums& sums, const ProductSizes& sizes, Terms terms,
               PackStrips weights, StoreTile store);

}  // namespace nodewise
