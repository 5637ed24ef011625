#include "nodewise/kernels/tap_sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

using matrix_kernel::kStripColumns;
using matrix_kernel::PaddedColumns;

// With so few rows, and many items, the matrix product is slower in any case;
// else it is slower where a row of outputs fills vectors, and the weights fit
// into a cache.
constexpr int64_t kFewRows = 4;
constexpr int64_t kFewestOutputColumns = 16;
constexpr int64_t kMostWeights = 1 << 16;
constexpr int64_t kMostKeptSums = 1 << 20;  // Numbers of an item.
constexpr int64_t kColumnsAtOnce = 128;
// With so many items, threads share the items and not the rows of one item.
constexpr int64_t kManyItems = 8;
constexpr double kNanosecondsPerTap = 0.1;
constexpr int64_t kOutside = -1;

// Padding makes places negative, for which C++ rounds towards 0.
int64_t FloorDiv(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// How inputs along the last side are kept: those that neighbouring outputs see
// lie side by side, so that there is a line for each remainder of their places
// by the stride. Each tap of the kernel is then a line from some place on.
struct LastSide {
  explicit LastSide(const WindowGeometry& g)
      : input(g.input.back()),
        output(g.output.back()),
        stride(g.strides.back()) {
    for (int64_t k = 0; k < g.kernel.back(); ++k) {
      const int64_t place = k * g.dilations.back() + g.offsets.back();
      const int64_t step = FloorDiv(place, stride);
      taps.push_back({place - step * stride, step});
      first = std::min(first, step);
      last = std::max(last, step);
    }
    for (Tap& tap : taps) tap.step -= first;
    length = output + last - first;
  }

  struct Tap {
    int64_t line;
    int64_t step;  // The step of output 0 in its line.
  };
  const int64_t input;
  const int64_t output;
  const int64_t stride;
  std::vector<Tap> taps;
  int64_t first = INT64_MAX;  // The line begins with input first * stride.
  int64_t last = INT64_MIN;
  int64_t length = 0;  // The length of a line.
};

// What all threads have in common. The input row that each tap sees from each
// row of outputs is looked up in a table: it is asked for again for every
// channel and item.
struct TapPlan {
  const TapSums& sums;
  const ProductSizes& sizes;
  const LastSide last;
  int64_t input_rows = 1;
  int64_t output_rows = 1;
  int64_t outer_taps = 1;

  TapPlan(const TapSums& all_sums, const ProductSizes& all_sizes)
      : sums(all_sums), sizes(all_sizes), last(sums.geometry) {
    const WindowGeometry& g = sums.geometry;
    const size_t outer = g.input.size() - 1;
    for (size_t s = 0; s < outer; ++s) {
      input_rows *= g.input[s];
      output_rows *= g.output[s];
      outer_taps *= g.kernel[s];
    }
    for (int64_t row = 0; row < output_rows; ++row) {
      for (int64_t tap = 0; tap < outer_taps; ++tap) {
        rows_.push_back(InputRow(row, tap));
      }
    }
  }

  // The row of inputs that the tap sees from the row of outputs, or kOutside.
  int64_t RowOf(int64_t output_row, int64_t tap) const {
    return rows_[static_cast<size_t>(output_row * outer_taps + tap)];
  }
  int64_t part_columns() const {
    return std::min(PaddedColumns(last.output), kColumnsAtOnce);
  }
  int64_t parts_of_row() const {
    return (last.output + part_columns() - 1) / part_columns();
  }
  int64_t kept() const {
    return sums.channels * input_rows * last.stride * last.length;
  }

 private:
  int64_t InputRow(int64_t row, int64_t tap) const {
    const WindowGeometry& g = sums.geometry;
    int64_t found = 0;
    int64_t scale = 1;
    for (size_t s = g.input.size() - 1; s-- > 0;) {
      const int64_t at = row % g.output[s] * g.strides[s] +
                         tap % g.kernel[s] * g.dilations[s] + g.offsets[s];
      if (at < 0 || at >= g.input[s]) return kOutside;
      found += at * scale;
      scale *= g.input[s];
      row /= g.output[s];
      tap /= g.kernel[s];
    }
    return found;
  }

  std::vector<int64_t> rows_;
};

// The channels of an item, line by line. Turning the channels into lines takes
// one pass; each line is read once for every tap and row of weights after that.
struct KeptItem {
  const TapPlan& plan;
  const Terms terms;
  // Lines are read a little beyond their ends.
  std::vector<double> numbers =
      std::vector<double>(static_cast<size_t>(plan.kept() + kStripColumns));

  void Keep(int64_t item) {
    const TapSums& sums = plan.sums;
    const LastSide& last = plan.last;
    const int64_t rows = sums.channels * plan.input_rows;
    ParallelFor(rows, static_cast<double>(last.length),
                [&](int64_t begin, int64_t end) {
                  (void)WithFloat(sums.dtype, [&](auto zero) {
                    using T = decltype(zero);
                    const T* const from = static_cast<const T*>(sums.x) +
                                          item * rows * last.input;
                    for (int64_t row = begin; row < end; ++row) {
                      KeepRow(from + row * last.input, row);
                    }
                  });
                });
  }

  const double* Line(int64_t row, int64_t line) const {
    return numbers.data() + (row * plan.last.stride + line) * plan.last.length;
  }

 private:
  template <typename T>
  void KeepRow(const T* inputs, int64_t row) {
    const LastSide& last = plan.last;
    const int64_t size = last.stride * last.length;
    double* const to = numbers.data() + row * size;
    for (int64_t line = 0; line < last.stride; ++line) {
      KeepLine(inputs, line, to + line * last.length);
    }
    ApplyTerms(terms, to, size);
  }

  // Number j of the line is input (first + j) * stride + line.
  template <typename T>
  void KeepLine(const T* inputs, int64_t line, double* to) const {
    const LastSide& last = plan.last;
    const int64_t count = FloorDiv(last.input - 1 - line, last.stride) + 1;
    const int64_t begin = std::clamp<int64_t>(-last.first, 0, last.length);
    const int64_t end =
        std::clamp<int64_t>(count - last.first, begin, last.length);
    std::fill(to, to + begin, 0.0);
    const int64_t shift = last.first * last.stride + line;
    if (last.stride == 1) {
      for (int64_t j = begin; j < end; ++j) to[j] = ToDouble(inputs[shift + j]);
    } else {
      for (int64_t j = begin; j < end; ++j) {
        to[j] = ToDouble(inputs[shift + j * last.stride]);
      }
    }
    std::fill(to + end, to + last.length, 0.0);
  }
};

// Every thread has its own PartMaker, whose buffers serve all of its parts.
struct PartMaker {
  const TapPlan& plan;
  std::vector<double> made = std::vector<double>(
      static_cast<size_t>(plan.sizes.rows * plan.part_columns()));
  std::vector<const double*> lines =
      std::vector<const double*>(static_cast<size_t>(plan.sizes.depth));
  const std::vector<double> zeros = std::vector<double>(
      static_cast<size_t>(plan.last.output + kStripColumns));

  void Make(int64_t item, int64_t part, const KeptItem& kept,
            const std::vector<double>& weights, StoreTile store) {
    const ProductSizes& sizes = plan.sizes;
    const int64_t width = plan.part_columns();
    const int64_t row = part / plan.parts_of_row();
    const int64_t column = part % plan.parts_of_row() * width;
    const int64_t columns = std::min(width, plan.last.output - column);
    FindLines(row, column, kept);
    matrix_kernel::BestLevel().sum_taps(
        {sizes.depth, lines.data(), weights.data(), sizes.rows,
         PaddedColumns(columns), made.data(), width});
    store({item, 0, sizes.rows, row * plan.last.output + column, columns,
           made.data(), width});
  }

 private:
  // Each step of the sum reads a run of inputs for the outputs of a part. The
  // runs of padding are 0, and not left out: an infinite weight makes NaN of
  // them.
  void FindLines(int64_t output_row, int64_t column, const KeptItem& kept) {
    auto to = lines.begin();
    for (int64_t channel = 0; channel < plan.sums.channels; ++channel) {
      for (int64_t outer = 0; outer < plan.outer_taps; ++outer) {
        const int64_t row = plan.RowOf(output_row, outer);
        for (const LastSide::Tap& tap : plan.last.taps) {
          *to++ = row == kOutside
                      ? zeros.data()
                      : kept.Line(channel * plan.input_rows + row, tap.line) +
                            tap.step + column;
        }
      }
    }
  }
};

// Weights are asked for one row at a time, as strips of one line, which are
// just the numbers one after the other.
std::vector<double> WeightsOf(const ProductSizes& sizes, int64_t item,
                              Terms terms, PackStrips pack) {
  std::vector<double> weights(static_cast<size_t>(sizes.rows * sizes.depth));
  for (int64_t row = 0; row < sizes.rows; ++row) {
    pack({item, row, 1, 0, sizes.depth, 1, weights.data() + row * sizes.depth});
  }
  ApplyTerms(terms, weights.data(), sizes.rows * sizes.depth);
  return weights;
}

}  // namespace

// A window of one element is a plain product already, and inputs with gaps
// between them do not lie in lines. Beyond the limits above the lines or the
// weights of an item would leave the cache.
bool IsFasterByTaps(const TapSums& sums, const ProductSizes& sizes) {
  const WindowGeometry& g = sums.geometry;
  const auto is_one = [](int64_t size) { return size == 1; };
  if (!std::all_of(g.spread.begin(), g.spread.end(), is_one) ||
      std::all_of(g.kernel.begin(), g.kernel.end(), is_one)) {
    return false;
  }
  for (const std::vector<int64_t>* side : {&g.input, &g.output, &g.kernel}) {
    if (Product(*side) == 0) return false;
  }
  const bool is_small = sizes.rows <= kFewRows && sizes.items >= kManyItems;
  if (!is_small && (g.output.back() < kFewestOutputColumns ||
                    sizes.rows * sizes.depth > kMostWeights)) {
    return false;
  }
  const LastSide last(g);
  const double kept = static_cast<double>(sums.channels) *
                      static_cast<double>(Product(g.input)) /
                      static_cast<double>(last.input) *
                      static_cast<double>(last.stride * last.length);
  return kept <= kMostKeptSums;
}

// Many items are split among threads, few have their rows split: either way a
// thread keeps the lines of one item at a time.
void SumByTaps(const TapSums& sums, const ProductSizes& sizes, Terms terms,
               PackStrips weights, StoreTile store) {
  const TapPlan plan(sums, sizes);
  const int64_t parts = plan.output_rows * plan.parts_of_row();
  const double work_of_part =
      static_cast<double>(sizes.rows) * static_cast<double>(sizes.depth) *
      static_cast<double>(plan.part_columns()) * kNanosecondsPerTap;
  const auto make_items = [&](int64_t begin, int64_t end) {
    KeptItem kept{plan, terms};
    for (int64_t item = begin; item < end; ++item) {
      const std::vector<double> own = WeightsOf(sizes, item, terms, weights);
      kept.Keep(item);
      ParallelFor(parts, work_of_part, [&](int64_t first, int64_t last) {
        PartMaker maker{plan};
        for (int64_t part = first; part < last; ++part) {
          maker.Make(item, part, kept, own, store);
        }
      });
    }
  };
  if (sizes.items < kManyItems) return make_items(0, sizes.items);
  ParallelFor(sizes.items, work_of_part * static_cast<double>(parts),
              make_items);
}

}  // namespace nodewise
