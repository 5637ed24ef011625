#pragma once

// The columns of a convolution: what its window sees at each place, as a factor
// of a matrix product, made block by block.

#include <cstdint>
#include <vector>

#include "nodewise/kernels/matrix_product.h"

namespace nodewise {

// Which inputs a window sees: place `p` of the output and tap `k` of the kernel
// see input (p * stride + k * dilation + offset) / spread where that is a whole
// number of an element that exists, and 0 elsewhere; by side.
struct WindowGeometry {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> offsets;
  std::vector<int64_t> spread;  // 1 except in transposed convolutions.
  std::vector<int64_t> input;
  std::vector<int64_t> output;
};

// Leaves out sides that have one element and a window of one. What runs along
// the last side would otherwise run along none.
void DropSidesOfOne(WindowGeometry* geometry);

// One image's channels (or a group of them) under a window. Step k of the sum
// is a channel and a tap of the kernel, line j a place of the output.
class WindowColumns {
 public:
  // `zero_point` is subtracted from every element; padding is 0 afterwards.
  WindowColumns(WindowGeometry geometry, DLDataType dtype, double zero_point);

  // Packs columns of the image whose first element is at `image`.
  // REQUIRES: strips.width is kStripColumns, or all lines are one strip.
  void Pack(const void* image, const Strips& strips) const;

  int64_t kernel_size() const { return kernel_size_; }
  int64_t image_size() const { return image_size_; }
  int64_t num_columns() const { return num_columns_; }

 private:
  // What one step of the sum sees.
  struct Tap {
    int64_t channel;
    std::vector<int64_t> shift;  // Added to a place times the stride.
  };
  struct Rows;

  Tap TapOf(int64_t step) const;
  template <typename T>
  void PackAs(const T* image, const Strips& strips) const;
  template <typename T>
  void FillRow(const T* channel, const Tap& tap, const Rows& rows,
               double* to) const;

  const DLDataType dtype_;
  const double zero_point_;
  WindowGeometry geometry_;
  int64_t kernel_size_ = 1;
  int64_t image_size_ = 1;
  int64_t num_columns_ = 1;
  bool is_pointwise_ = false;
};

}  // namespace nodewise
