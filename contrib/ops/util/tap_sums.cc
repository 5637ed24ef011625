#include "contrib/ops/util/tap_sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "contrib/ops/util/matrix_kernel.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

constexpr int64_t kMostRows = 4;
constexpr int64_t kFewestItems = 8;
constexpr int64_t kMostKept = 1 << 20;  // Numbers of an item.
constexpr double kNanosecondsPerTerm = 0.1;
constexpr int64_t kOutside = -1;

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
    int64_t step;  // Of output 0, in its line.
  };
  const int64_t input;
  const int64_t output;
  const int64_t stride;
  std::vector<Tap> taps;
  int64_t first = INT64_MAX;  // The line begins with input first * stride.
  int64_t last = INT64_MIN;
  int64_t length = 0;  // Of a line.
};

// What all threads have in common.
class TapPlan {
 public:
  TapPlan(const TapSums& sums, const ProductSizes& sizes)
      : sums_(sums), sizes_(sizes), last_(sums.geometry) {
    const WindowGeometry& g = sums.geometry;
    const size_t outer = g.input.size() - 1;
    for (size_t s = 0; s < outer; ++s) {
      input_rows_ *= g.input[s];
      output_rows_ *= g.output[s];
      outer_taps_ *= g.kernel[s];
    }
    for (int64_t row = 0; row < output_rows_; ++row) {
      for (int64_t tap = 0; tap < outer_taps_; ++tap) {
        rows_.push_back(InputRow(row, tap));
      }
    }
  }

  const LastSide& last() const { return last_; }
  const ProductSizes& sizes() const { return sizes_; }
  const TapSums& sums() const { return sums_; }
  int64_t input_rows() const { return input_rows_; }
  int64_t output_rows() const { return output_rows_; }
  int64_t outer_taps() const { return outer_taps_; }
  // The row of inputs that the tap sees from the row of outputs, or kOutside.
  int64_t RowOf(int64_t output_row, int64_t tap) const {
    return rows_[static_cast<size_t>(output_row * outer_taps_ + tap)];
  }
  int64_t kept() const {
    return sums_.channels * input_rows_ * last_.stride * last_.length;
  }

 private:
  int64_t InputRow(int64_t row, int64_t tap) const {
    const WindowGeometry& g = sums_.geometry;
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

  const TapSums& sums_;
  const ProductSizes& sizes_;
  const LastSide last_;
  int64_t input_rows_ = 1;
  int64_t output_rows_ = 1;
  int64_t outer_taps_ = 1;
  std::vector<int64_t> rows_;
};

void Apply(Terms terms, std::vector<double>* numbers) {
  if (terms == Terms::kAbsolute) {
    for (double& x : *numbers) x = std::fabs(x);
  } else if (terms == Terms::kSquared) {
    for (double& x : *numbers) x *= x;
  }
}

// One thread's memory, and how it makes an item.
class ItemMaker {
 public:
  ItemMaker(const TapPlan& plan, Terms terms)
      : plan_(plan),
        terms_(terms),
        kept_(static_cast<size_t>(plan.kept())),
        weights_(static_cast<size_t>(plan.sizes().rows * plan.sizes().depth)),
        made_(static_cast<size_t>(plan.sizes().rows * plan.sizes().columns)),
        zeros_(static_cast<size_t>(plan.last().output)) {}

  void Make(int64_t item, PackStrips weights, StoreTile store) {
    const ProductSizes& sizes = plan_.sizes();
    Keep(item);
    for (int64_t row = 0; row < sizes.rows; ++row) {
      weights({item, row, 1, 0, sizes.depth, 1,
               weights_.data() + row * sizes.depth});
    }
    Apply(terms_, &weights_);
    for (int64_t row = 0; row < plan_.output_rows(); ++row) SumRow(row);
    store({item, 0, sizes.rows, 0, sizes.columns, made_.data(), sizes.columns});
  }

 private:
  void Keep(int64_t item) {
    const TapSums& sums = plan_.sums();
    const LastSide& last = plan_.last();
    const int64_t rows = sums.channels * plan_.input_rows();
    (void)WithFloat(sums.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* from = static_cast<const T*>(sums.x) + item * rows * last.input;
      double* to = kept_.data();
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t line = 0; line < last.stride; ++line) {
          KeepLine(from, line, to);
          to += last.length;
        }
        from += last.input;
      }
      return absl::OkStatus();
    });
    Apply(terms_, &kept_);
  }

  // Number j of the line is input (first + j) * stride + line.
  template <typename T>
  void KeepLine(const T* inputs, int64_t line, double* to) const {
    const LastSide& last = plan_.last();
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

  void SumRow(int64_t output_row) {
    const ProductSizes& sizes = plan_.sizes();
    const LastSide& last = plan_.last();
    FindTaps(output_row);
    for (int64_t row = 0; row < sizes.rows; ++row) {
      matrix_kernel::BestLevel().sum_taps(
          sizes.depth, from_.data(), weights_.data() + row * sizes.depth,
          last.output,
          made_.data() + row * sizes.columns + output_row * last.output);
    }
  }

  // Where the numbers begin that each step of the sum sees from a row of
  // outputs. Padding is 0 there, too: an infinite weight makes NaN of it.
  void FindTaps(int64_t output_row) {
    const LastSide& last = plan_.last();
    from_.clear();
    for (int64_t channel = 0; channel < plan_.sums().channels; ++channel) {
      for (int64_t outer = 0; outer < plan_.outer_taps(); ++outer) {
        const int64_t row = plan_.RowOf(output_row, outer);
        for (const LastSide::Tap& tap : last.taps) {
          const int64_t line =
              (channel * plan_.input_rows() + row) * last.stride + tap.line;
          from_.push_back(row == kOutside
                              ? zeros_.data()
                              : kept_.data() + line * last.length + tap.step);
        }
      }
    }
  }

  const TapPlan& plan_;
  const Terms terms_;
  std::vector<double> kept_;
  std::vector<double> weights_;
  std::vector<double> made_;
  std::vector<const double*> from_;
  const std::vector<double> zeros_;
};

}  // namespace

bool IsFasterByTaps(const TapSums& sums, const ProductSizes& sizes) {
  const WindowGeometry& g = sums.geometry;
  const auto is_one = [](int64_t size) { return size == 1; };
  if (sizes.rows > kMostRows || sizes.items < kFewestItems ||
      !std::all_of(g.spread.begin(), g.spread.end(), is_one) ||
      std::all_of(g.kernel.begin(), g.kernel.end(), is_one)) {
    return false;
  }
  for (const std::vector<int64_t>* side : {&g.input, &g.output, &g.kernel}) {
    if (Product(*side) == 0) return false;
  }
  const LastSide last(g);
  const double kept = static_cast<double>(sums.channels) *
                      static_cast<double>(Product(g.input)) /
                      static_cast<double>(last.input) *
                      static_cast<double>(last.stride * last.length);
  return kept <= kMostKept &&
         static_cast<double>(sizes.rows * sizes.columns) <= kMostKept;
}

void SumByTaps(const TapSums& sums, const ProductSizes& sizes, Terms terms,
               PackStrips weights, StoreTile store) {
  const TapPlan plan(sums, sizes);
  const double work = static_cast<double>(sizes.rows * sizes.columns) *
                      static_cast<double>(sizes.depth) * kNanosecondsPerTerm;
  ParallelFor(sizes.items, work, [&](int64_t begin, int64_t end) {
    ItemMaker maker(plan, terms);
    for (int64_t item = begin; item < end; ++item) {
      maker.Make(item, weights, store);
    }
  });
}

}  // namespace nodewise
