#include "nodewise/kernels/matrix_product.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

using matrix_kernel::kStripColumns;

// A strip of the right factor stays in the first cache, a chunk of the left one
// in the second.
constexpr int64_t kDepth = 256;
constexpr int64_t kChunkRows = 96;
// Limits of a tile, which one thread takes at a time.
constexpr int64_t kMostRows = 384;
constexpr int64_t kMostColumns = 384;
constexpr int64_t kFewestColumns = 32;
constexpr int64_t kFewestRows = 48;
// A multiple of the rows of a left strip at every level.
constexpr int64_t kRowUnit = 12;
// How many numbers of the left factor stay packed from one tile to the next.
constexpr int64_t kMostKept = 1 << 19;
constexpr double kNanosecondsPerTerm = 0.05;
// With so few rows, the right factor is read too seldom to pay for narrow
// strips. It is packed as it lies, in long lines of few steps: as much as the
// second cache holds.
constexpr int64_t kThinRows = 4;
constexpr int64_t kMostThinColumns = 2048;
constexpr int64_t kThinBlock = 16'384;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The blocking is the usual one: a strip of the right factor is kept in the
// first cache while a packed chunk of the left one streams past it from the
// second, and sums stay in registers in the innermost loop. Packing reads each
// factor in the order in which it lies and makes of it what the loop reads one
// after the other, of any type.

struct Tiling {
  int64_t rows;
  int64_t columns;
  int64_t row_tiles;
  int64_t column_tiles;
  int64_t tiles;
  // Tiles side by side have the rows of the left factor in common, and a thread
  // packs them once.
  bool keeps_left;
};

// Equal parts of at most `most`, a multiple of `unit`.
int64_t PartOf(int64_t size, int64_t most, int64_t unit) {
  const int64_t part = CeilDiv(size, CeilDiv(size, most));
  return CeilDiv(part, unit) * unit;
}

bool HasFewRows(const ProductSizes& sizes) {
  return sizes.right_is_side_by_side && sizes.rows <= kThinRows;
}

Tiling TilingOf(const ProductSizes& sizes, int64_t most_rows,
                int64_t most_columns) {
  Tiling tiling{};
  tiling.rows = PartOf(sizes.rows, most_rows, kRowUnit);
  tiling.columns = PartOf(sizes.columns, most_columns, kStripColumns);
  tiling.row_tiles = CeilDiv(sizes.rows, tiling.rows);
  tiling.column_tiles = CeilDiv(sizes.columns, tiling.columns);
  tiling.tiles = sizes.items * tiling.row_tiles * tiling.column_tiles;
  tiling.keeps_left =
      tiling.column_tiles > 1 && sizes.depth <= kMostKept / tiling.rows;
  return tiling;
}

// Chooses enough tiles that no thread is left with one more than the others for
// long. Narrow ones cost little where the left factor is kept; ones of few rows
// pack the right factor again and again.
Tiling TilingFor(const ProductSizes& sizes, int workers) {
  const int64_t enough = 4 * int64_t{workers};
  const int64_t plenty = HasFewRows(sizes) ? enough : 4 * enough;
  Tiling tiling = TilingOf(sizes, kMostRows,
                           HasFewRows(sizes) ? kMostThinColumns : kMostColumns);
  while (workers > 1 && tiling.tiles < plenty) {
    const bool may_be_narrower = tiling.columns >= 2 * kFewestColumns;
    if (may_be_narrower &&
        (tiling.keeps_left || tiling.columns >= tiling.rows)) {
      tiling = TilingOf(sizes, tiling.rows, tiling.columns / 2);
    } else if (tiling.tiles < enough && tiling.rows >= 2 * kFewestRows) {
      tiling = TilingOf(sizes, tiling.rows / 2, tiling.columns);
    } else {
      break;
    }
  }
  return tiling;
}

// Every thread has its own TileMaker, whose buffers serve all of its tiles.
class TileMaker {
 public:
  TileMaker(const ProductSizes& sizes, Terms terms, const Tiling& tiling)
      : sizes_(sizes),
        terms_(terms),
        tiling_(tiling),
        level_(matrix_kernel::BestLevel()),
        is_thin_(HasFewRows(sizes)),
        chunk_(std::min(tiling.rows, kChunkRows)) {
    const int64_t most_steps =
        is_thin_ ? std::min(kDepth, kThinBlock / tiling.columns) : kDepth;
    depth_ = std::min(sizes.depth, most_steps);
    left_.reset(new double[static_cast<size_t>(
        tiling.keeps_left ? tiling.rows * sizes.depth : chunk_ * depth_)]);
    right_.reset(new double[static_cast<size_t>(tiling.columns * depth_)]);
    sums_.reset(new double[static_cast<size_t>(tiling.rows * tiling.columns)]);
  }

  void Make(int64_t index, PackStrips left, PackStrips right, StoreTile store) {
    const int64_t band = index / tiling_.column_tiles;
    ProductTile tile{};
    tile.column = index % tiling_.column_tiles * tiling_.columns;
    tile.row = band % tiling_.row_tiles * tiling_.rows;
    tile.item = band / tiling_.row_tiles;
    tile.rows = std::min(tiling_.rows, sizes_.rows - tile.row);
    tile.columns = std::min(tiling_.columns, sizes_.columns - tile.column);
    tile.sums = sums_.get();
    tile.stride = tiling_.columns;
    has_left_ = tiling_.keeps_left && band == band_;
    band_ = band;
    std::fill_n(sums_.get(), tile.rows * tile.stride, 0.0);
    for (int64_t step = 0; step < sizes_.depth; step += depth_) {
      AddSteps(tile, step, std::min(depth_, sizes_.depth - step), left, right);
    }
    store(tile);
  }

 private:
  void AddSteps(const ProductTile& tile, int64_t step, int64_t steps,
                PackStrips left, PackStrips right) {
    const int64_t columns = matrix_kernel::PaddedColumns(tile.columns);
    const int64_t strip = is_thin_ ? columns : kStripColumns;
    right({tile.item, tile.column, tile.columns, step, steps, strip,
           right_.get()});
    ApplyTerms(terms_, right_.get(), columns * steps);
    for (int64_t row = 0; row < tile.rows; row += chunk_) {
      const int64_t rows = std::min(chunk_, tile.rows - row);
      double* const packed = PackedLeft(tile, row, rows, step, steps, left);
      level_.multiply({steps, rows, columns, packed, right_.get(), strip,
                       sums_.get() + row * tile.stride, tile.stride});
    }
  }

  // Packs rows of the tile, from its row `row` on. Where the left factor is
  // kept, the steps packed so far lie one after the other, each with all rows
  // of the tile.
  double* PackedLeft(const ProductTile& tile, int64_t row, int64_t rows,
                     int64_t step, int64_t steps, PackStrips left) {
    const int64_t strip = level_.rows;
    double* to = left_.get();
    if (tiling_.keeps_left) {
      to += step * CeilDiv(tile.rows, strip) * strip + row * steps;
      if (has_left_) return to;
    }
    left({tile.item, tile.row + row, rows, step, steps, strip, to});
    ApplyTerms(terms_, to, CeilDiv(rows, strip) * strip * steps);
    return to;
  }

  const ProductSizes& sizes_;
  const Terms terms_;
  const Tiling& tiling_;
  const matrix_kernel::Level& level_;
  const bool is_thin_;
  const int64_t chunk_;
  int64_t depth_;
  int64_t band_ = -1;  // The rows of an item that were packed last.
  bool has_left_ = false;
  std::unique_ptr<double[]> left_;
  std::unique_ptr<double[]> right_;
  std::unique_ptr<double[]> sums_;
};

// Lines side by side in memory: they are read as they go into the strip. No
// processor predicts steps as wide as a row, so they are prefetched: a factor
// that is not in a cache is waited for once, not for every step.
template <typename T, int kWidth>
void PackSideBySide(const T* from, int64_t step_stride, int64_t steps,
                    double* to) {
  constexpr int64_t kStepsAhead = 24;
  for (int64_t k = 0; k < steps; ++k) {
    if (k + kStepsAhead < steps) {
      __builtin_prefetch(from + kStepsAhead * step_stride);
    }
    for (int i = 0; i < kWidth; ++i) to[i] = ToDouble(from[i]);
    from += step_stride;
    to += kWidth;
  }
}

template <typename T, int kWidth>
void PackLines(const T* from, int64_t line_stride, int64_t step_stride,
               int64_t steps, double* to) {
  for (int64_t k = 0; k < steps; ++k) {
    for (int i = 0; i < kWidth; ++i) to[i] = ToDouble(from[i * line_stride]);
    from += step_stride;
    to += kWidth;
  }
}

template <typename T>
void PackStrip(const Factor& factor, const T* from, int64_t lines,
               const Strips& strips, double* to) {
  constexpr int64_t kWideStepsAhead = 8;
  constexpr int64_t kLine = 64 / sizeof(T);  // Elements in a cache line.
  const int64_t width = strips.width;
  // One wide strip: it is read as it lies.
  if (factor.line_stride == 1 && width > kStripColumns) {
    for (int64_t k = 0; k < strips.steps; ++k) {
      const T* const step = from + k * factor.step_stride;
      if (k + kWideStepsAhead < strips.steps) {
        const T* const ahead = step + kWideStepsAhead * factor.step_stride;
        for (int64_t i = 0; i < lines; i += kLine) {
          __builtin_prefetch(ahead + i);
        }
      }
      for (int64_t i = 0; i < lines; ++i) to[i] = ToDouble(step[i]);
      std::fill(to + lines, to + width, 0.0);
      to += width;
    }
    return;
  }
  if (factor.line_stride == 1 && lines == kStripColumns &&
      width == kStripColumns) {
    PackSideBySide<T, kStripColumns>(from, factor.step_stride, strips.steps,
                                     to);
    return;
  }
  const auto pack_whole = [&](auto pack) {
    pack(from, factor.line_stride, factor.step_stride, strips.steps, to);
  };
  if (lines == width && width == 6) return pack_whole(PackLines<T, 6>);
  if (lines == width && width == 8) return pack_whole(PackLines<T, 8>);
  if (lines == width && width == 12) return pack_whole(PackLines<T, 12>);
  for (int64_t i = 0; i < width; ++i) {
    if (i >= lines) {
      for (int64_t k = 0; k < strips.steps; ++k) to[k * width + i] = 0;
      continue;
    }
    const T* const line = from + i * factor.line_stride;
    for (int64_t k = 0; k < strips.steps; ++k) {
      to[k * width + i] = ToDouble(line[k * factor.step_stride]);
    }
  }
}

// Lines that only fill up a strip stay 0 with any zero point.
void SubtractZeroPoints(const Factor& factor, int64_t line, int64_t lines,
                        const Strips& strips, double* to) {
  for (int64_t i = 0; i < lines; ++i) {
    const double zero =
        factor.zero_points[factor.zero_point_by_line ? line + i : 0];
    for (int64_t k = 0; k < strips.steps; ++k) {
      to[k * strips.width + i] -= zero;
    }
  }
}

template <typename T>
void PackAs(const Factor& factor, const Strips& strips) {
  const T* const data = static_cast<const T*>(factor.data);
  double* to = strips.to;
  for (int64_t done = 0; done < strips.lines; done += strips.width) {
    const int64_t line = strips.line + done;
    const int64_t lines = std::min(strips.width, strips.lines - done);
    PackStrip(
        factor,
        data + line * factor.line_stride + strips.step * factor.step_stride,
        lines, strips, to);
    if (factor.zero_points != nullptr) {
      SubtractZeroPoints(factor, line, lines, strips, to);
    }
    to += strips.width * strips.steps;
  }
}

}  // namespace

void ApplyTerms(Terms terms, double* numbers, int64_t count) {
  if (terms == Terms::kAbsolute) {
    for (int64_t i = 0; i < count; ++i) numbers[i] = std::fabs(numbers[i]);
  } else if (terms == Terms::kSquared) {
    for (int64_t i = 0; i < count; ++i) numbers[i] *= numbers[i];
  }
}

void MultiplyMatrices(const ProductSizes& sizes, Terms terms, PackStrips left,
                      PackStrips right, StoreTile store) {
  if (sizes.items == 0 || sizes.rows == 0 || sizes.columns == 0) return;
  const double work =
      static_cast<double>(sizes.items) * static_cast<double>(sizes.rows) *
      static_cast<double>(sizes.columns) *
      (static_cast<double>(sizes.depth) + 8) * kNanosecondsPerTerm;
  const int threads = work < 100'000 ? 1 : NumThreads();
  const Tiling tiling = TilingFor(sizes, threads);
  const int64_t workers = std::min<int64_t>(threads, tiling.tiles);
  // Threads take tiles one by one, since other processes may slow one of the
  // threads down.
  std::atomic<int64_t> next = 0;
  ParallelFor(workers, work / static_cast<double>(workers),
              [&](int64_t, int64_t) {
                TileMaker maker(sizes, terms, tiling);
                while (true) {
                  const int64_t tile = next++;
                  if (tile >= tiling.tiles) return;
                  maker.Make(tile, left, right, store);
                }
              });
}

void PackFactor(const Factor& factor, const Strips& strips) {
  if (factor.dtype == kInt8) return PackAs<int8_t>(factor, strips);
  if (factor.dtype == kUint8) return PackAs<uint8_t>(factor, strips);
  (void)WithFloat(factor.dtype,
                  [&](auto zero) { PackAs<decltype(zero)>(factor, strips); });
}

const void* ElementAt(DLDataType dtype, const void* data, int64_t index) {
  return static_cast<const uint8_t*>(data) +
         index * static_cast<int64_t>(ElementBytes(dtype));
}

}  // namespace nodewise
