#pragma once

#include <cstdint>

#include "absl/types/span.h"

// The innermost loops of matrix products in double, compiled for several
// instruction sets; only for the files beside it that make such products
// and their tests.
namespace nodewise::matrix_kernel {

// Columns of a strip of the right matrix, at every level. All columns may also
// be one strip, filled up to a multiple of this: slower to read repeatedly, but
// the rows of a matrix are already in this form.
inline constexpr int kStripColumns = 8;
// Returns how many columns the strips have that so many need.
constexpr int64_t PaddedColumns(int64_t columns) {
  return (columns + kStripColumns - 1) / kStripColumns * kStripColumns;
}

// A packed block of either matrix is a row of strips. A strip of w lines has,
// for each step of the sum, w numbers side by side; the last one is filled up.
struct Block {
  int64_t depth;        // Steps of the sum.
  int64_t rows;         // Rows of the left matrix.
  int64_t columns;      // Columns of the right one, filled up to strips.
  const double* left;   // In strips of Level::rows lines.
  const double* right;  // In strips of kStripColumns lines, or in one.
  int64_t strip;        // Lines of a strip of the right matrix.
  double* sums;         // rows x columns, added to.
  int64_t stride;       // From one row of `sums` to the next.
};

// The sums of the absolute values and of the squares of the terms of one sum.
struct TermSums {
  double absolute = 0;
  double squares = 0;
};

// Sums along lines of numbers: sums[r][i] is the sum over t of weights[r][t] *
// lines[t][i].
struct TapBlock {
  int64_t taps;
  const double* const* lines;
  const double* weights;  // Row by row.
  int64_t rows;
  int64_t columns;  // A multiple of kStripColumns.
  double* sums;     // rows x columns, set.
  int64_t stride;   // From one row of `sums` to the next.
};

struct Level {
  const char* name;
  bool (*works_here)();
  int rows;  // Lines of a strip of the left matrix.
  void (*multiply)(const Block& block);
  // Sums up the `depth` products a[k] * b[k].
  TermSums (*sum_terms)(int64_t depth, const double* a, const double* b);
  void (*sum_taps)(const TapBlock& block);
};

// All levels, from the best to the one that runs everywhere.
absl::Span<const Level> AllLevels();
// The first level that works here; found once.
const Level& BestLevel();

}  // namespace nodewise::matrix_kernel
