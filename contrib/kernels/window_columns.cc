#include "nodewise/kernels/window_columns.h"

#include <algorithm>
#include <utility>

#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using matrix_kernel::kStripColumns;

// True if every output sees just the input at its own place. A convolution with
// a window of 1 is a product with the image as it lies, and needs no columns
// made.
bool IsPointwise(const WindowGeometry& geometry) {
  for (size_t s = 0; s < geometry.input.size(); ++s) {
    if (geometry.kernel[s] != 1 || geometry.strides[s] != 1 ||
        geometry.spread[s] != 1 || geometry.offsets[s] != 0 ||
        geometry.input[s] != geometry.output[s]) {
      return false;
    }
  }
  return true;
}

// How one run of outputs along the last side sees a row of `size` inputs:
// output i the input (first + i * stride) / spread.
struct RunOfInputs {
  int64_t first;
  int64_t stride;
  int64_t spread;
  int64_t size;
  int64_t count;
};

// Returns the range of i whose inputs lie within [0, size). Found by division,
// so that the loops over a run have no test for the padding.
std::pair<int64_t, int64_t> InsideOf(const RunOfInputs& run) {
  const int64_t end = (run.size - 1) * run.spread;
  const int64_t begin =
      run.first >= 0 ? 0 : (-run.first + run.stride - 1) / run.stride;
  const int64_t last = run.first > end ? 0 : (end - run.first) / run.stride + 1;
  const int64_t from = std::min(begin, run.count);
  return {from, std::max(from, std::min(last, run.count))};
}

// The common cases have loops of their own: neighbours (which is a copy), a
// stride, and the gaps of transposed convolutions with a stride of 1.
template <typename T>
void FillRun(const T* from, const RunOfInputs& run, double zero_point,
             double* to) {
  const auto [begin, end] = InsideOf(run);
  std::fill_n(to, begin, 0.0);
  if (run.spread != 1 && run.stride == 1) {
    // The first output that sees an input, and each `spread` outputs another.
    int64_t i =
        begin + (run.spread - (run.first + begin) % run.spread) % run.spread;
    std::fill(to + begin, to + end, 0.0);
    const T* input = from + (run.first + i) / run.spread;
    for (; i < end; i += run.spread) to[i] = ToDouble(*input++);
  } else if (run.spread != 1) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = run.first + i * run.stride;
      to[i] = at % run.spread == 0 ? ToDouble(from[at / run.spread]) : 0;
    }
  } else if (run.stride == 1) {
    const T* const inputs = from + run.first;
    for (int64_t i = begin; i < end; ++i) to[i] = ToDouble(inputs[i]);
  } else {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = ToDouble(from[run.first + i * run.stride]);
    }
  }
  if (zero_point != 0) {
    for (int64_t i = begin; i < end; ++i) to[i] -= zero_point;
  }
  std::fill_n(to + end, run.count - end, 0.0);
}

}  // namespace

// The output's rows (all sides but the last) that a block of columns touches.
// They are the same for every step of the sum, so they are found once for a
// block.
struct WindowColumns::Rows {
  struct Run {
    std::vector<int64_t> origin;  // The window's, by outer side.
    int64_t column;               // Along the last side.
    int64_t count;
  };
  std::vector<Run> runs;
};

// At least one side stays, since the loops below need a last one.
void DropSidesOfOne(WindowGeometry* geometry) {
  for (size_t s = geometry->input.size(); s-- > 0;) {
    if (geometry->input.size() == 1) return;
    if (geometry->input[s] != 1 || geometry->output[s] != 1 ||
        geometry->kernel[s] != 1 || geometry->offsets[s] != 0) {
      continue;
    }
    const auto side = static_cast<std::ptrdiff_t>(s);
    for (std::vector<int64_t>* sizes :
         {&geometry->kernel, &geometry->strides, &geometry->dilations,
          &geometry->offsets, &geometry->spread, &geometry->input,
          &geometry->output}) {
      sizes->erase(sizes->begin() + side);
    }
  }
}

WindowColumns::WindowColumns(WindowGeometry geometry, DLDataType dtype,
                             double zero_point)
    : dtype_(dtype), zero_point_(zero_point), geometry_(std::move(geometry)) {
  kernel_size_ = Product(geometry_.kernel);
  image_size_ = Product(geometry_.input);
  num_columns_ = Product(geometry_.output);
  is_pointwise_ = IsPointwise(geometry_);
}

WindowColumns::Tap WindowColumns::TapOf(int64_t step) const {
  const WindowGeometry& g = geometry_;
  Tap tap{0, std::vector<int64_t>(g.kernel.size())};
  for (size_t s = g.kernel.size(); s-- > 0;) {
    tap.shift[s] = step % g.kernel[s] * g.dilations[s] + g.offsets[s];
    step /= g.kernel[s];
  }
  tap.channel = step;
  return tap;
}

// Fills a row with what one step of the sum sees from each column of a block.
template <typename T>
void WindowColumns::FillRow(const T* channel, const Tap& tap, const Rows& rows,
                            double* to) const {
  const WindowGeometry& g = geometry_;
  const size_t last = g.input.size() - 1;
  for (const Rows::Run& run : rows.runs) {
    int64_t row = 0;
    bool is_inside = true;
    for (size_t s = 0; s < last; ++s) {
      const int64_t at = run.origin[s] + tap.shift[s];
      is_inside &=
          at >= 0 && at % g.spread[s] == 0 && at / g.spread[s] < g.input[s];
      row = row * g.input[s] + at / g.spread[s];
    }
    if (is_inside) {
      FillRun(channel + row * g.input[last],
              {run.column * g.strides[last] + tap.shift[last], g.strides[last],
               g.spread[last], g.input[last], run.count},
              zero_point_, to);
    } else {
      std::fill_n(to, run.count, 0.0);
    }
    to += run.count;
  }
}

// One wide strip is filled in place. Narrow ones are filled by way of a row,
// which is then cut into pieces of a strip's width.
template <typename T>
void WindowColumns::PackAs(const T* image, const Strips& strips) const {
  const std::vector<int64_t>& output = geometry_.output;
  const size_t last = output.size() - 1;
  Rows rows;
  for (int64_t done = 0; done < strips.lines;) {
    int64_t place = strips.line + done;
    Rows::Run run{std::vector<int64_t>(last), place % output[last], 0};
    run.count = std::min(output[last] - run.column, strips.lines - done);
    place /= output[last];
    for (size_t s = last; s-- > 0;) {
      run.origin[s] = place % output[s] * geometry_.strides[s];
      place /= output[s];
    }
    done += run.count;
    rows.runs.push_back(std::move(run));
  }
  const int64_t filled = matrix_kernel::PaddedColumns(strips.lines);
  std::vector<double> row(static_cast<size_t>(filled));
  for (int64_t k = 0; k < strips.steps; ++k) {
    const Tap tap = TapOf(strips.step + k);
    const T* const channel = image + tap.channel * image_size_;
    if (strips.width == filled) {
      double* const to = strips.to + k * filled;
      FillRow(channel, tap, rows, to);
      std::fill(to + strips.lines, to + filled, 0.0);
      continue;
    }
    FillRow(channel, tap, rows, row.data());
    double* to = strips.to + k * kStripColumns;
    for (int64_t i = 0; i < filled; i += kStripColumns) {
      for (int64_t j = 0; j < kStripColumns; ++j) to[j] = row[i + j];
      to += kStripColumns * strips.steps;
    }
  }
}

// Any type but a float or an integer was refused when the operation was
// checked.
void WindowColumns::Pack(const void* image, const Strips& strips) const {
  if (is_pointwise_) {
    PackFactor({dtype_, image, 1, image_size_,
                zero_point_ == 0 ? nullptr : &zero_point_},
               strips);
    return;
  }
  (void)WithNumber(dtype_, [&](auto zero) {
    using T = decltype(zero);
    PackAs(static_cast<const T*>(image), strips);
  });
}

}  // namespace nodewise
