#pragma once

// Matrix products in double, for the operators that are such products: MatMul,
// Gemm, convolutions, Attention. The factors are packed block by block by their
// owner, so that they may be of any type and need not exist as matrices.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// What is summed up: the products, or what the bounds need of them.
enum class Terms { kPlain, kAbsolute, kSquared };
// Makes of each factor what its products are then summed up as.
void ApplyTerms(Terms terms, double* numbers, int64_t count);

struct ProductSizes {
  int64_t items = 1;  // Products of these sizes, each on its own.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;  // Terms of each sum.
  // The columns of the right factor lie side by side, or are generated so:
  // packing them into one wide strip costs less than into narrow ones.
  bool right_is_side_by_side = false;
};

// A block of a factor that is asked for. Lines are rows of the left factor or
// columns of the right one. They go into strips of `width` lines, one strip
// after the other: for each step of the sum `width` numbers; lines beyond the
// last are 0.
struct Strips {
  int64_t item;
  int64_t line;
  int64_t lines;
  int64_t step;
  int64_t steps;
  int64_t width;
  double* to;
};
using PackStrips = absl::FunctionRef<void(const Strips& strips)>;

// A part of one product, finished.
struct ProductTile {
  int64_t item;
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
  const double* sums;
  int64_t stride;  // From one row of `sums` to the next.

  const double* Row(int64_t r) const { return sums + r * stride; }
};
using StoreTile = absl::FunctionRef<void(const ProductTile& tile)>;

// Calculates all products, in threads; several threads call the functions at
// once. Every element is stored once.
void MultiplyMatrices(const ProductSizes& sizes, Terms terms, PackStrips left,
                      PackStrips right, StoreTile store);

// A factor that lies in memory: line i, step k at data[i * line_stride + k *
// step_stride].
struct Factor {
  DLDataType dtype{};
  const void* data = nullptr;
  int64_t line_stride = 0;
  int64_t step_stride = 0;
  // Subtracted from every element, one number for all lines or one for each;
  // null for none.
  const double* zero_points = nullptr;
  bool zero_point_by_line = false;
};
// REQUIRES: the type is a float or an integer of 8 bits.
void PackFactor(const Factor& factor, const Strips& strips);
// Returns `data` moved by `index` elements.
const void* ElementAt(DLDataType dtype, const void* data, int64_t index);

}  // namespace nodewise
