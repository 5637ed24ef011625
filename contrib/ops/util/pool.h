#pragma once

// Windows that slide over a channel's plane, only for the pools' files.

#include <vector>

#include "contrib/ops/util/window_rules.h"
#include "nodewise/op/op_def.h"
#include "nodewise/ops/pool.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

WindowAttributes WindowOf(const ops::PoolAttributes& pool);
WindowAttributes WindowOf(const ops::LpPool1& pool);

absl::Status CheckPool(const WindowAttributes& window, const Inputs& in);
// Returns the type of the first output.
absl::StatusOr<TensorType> InferPool(const WindowAttributes& window,
                                     const Inputs& in);

// Which elements of a plane each place of the output sees: along every side a
// range of taps, cut to the input.
class PoolPlan {
 public:
  struct Range {
    int64_t first;   // Input.
    int64_t taps;    // Within the input.
    int64_t padded;  // Within the input and its padding.
  };

  static absl::StatusOr<PoolPlan> Make(const WindowAttributes& window,
                                       absl::Span<const int64_t> input);

  const std::vector<int64_t>& output() const { return output_; }
  int64_t planes() const { return planes_; }
  int64_t plane_size() const { return plane_size_; }
  int64_t places() const { return places_; }
  // The number of taps of a complete window.
  double window_size() const { return window_size_; }

  // Calls f(plane, place, window) for every window of every plane, in threads.
  template <typename F>
  void ForEachWindow(F f) const;

  // One tap of the kernel along the last side: places [place, place + count) of
  // a line of the output see it inside the input, the first of them as element
  // `first` of the input's line.
  struct LineTap {
    int64_t place;
    int64_t count;
    int64_t first;
  };
  const std::vector<LineTap>& line_taps() const { return line_taps_; }
  int64_t line_stride() const { return line_stride_; }
  int64_t line_places() const { return sides_.back(); }

  // Calls f(plane, place, window) for every line of places along the last side,
  // in threads. `place` is the first; the rows of `window` are the input's
  // lines that the windows of all its places see, each as its first element.
  template <typename F>
  void ForEachLine(F f) const;

  // Where one window is. visit(element, count, step) is called for its rows:
  // elements of the plane.
  class Placed {
   public:
    explicit Placed(const PoolPlan& plan);
    template <typename Visit>
    void ForEachRow(Visit visit);
    int64_t taps() const;
    double padded() const;

   private:
    friend class PoolPlan;
    const PoolPlan& plan_;
    std::vector<const Range*> ranges_;
    std::vector<int64_t> tap_;
  };

 private:
  void SetLineTaps(const PlacedWindow& placed);

  std::vector<int64_t> output_;   // All sides.
  std::vector<int64_t> sides_;    // Spatial ones.
  std::vector<int64_t> strides_;  // Strides of the input's plane.
  std::vector<int64_t> dilations_;
  std::vector<std::vector<Range>> ranges_;  // By side and place.
  std::vector<LineTap> line_taps_;
  int64_t line_stride_ = 1;
  int64_t planes_ = 0;
  int64_t plane_size_ = 1;
  int64_t places_ = 1;
  double window_size_ = 1;
};

template <typename Visit>
void PoolPlan::Placed::ForEachRow(Visit visit) {
  if (taps() == 0) return;
  const size_t last = ranges_.size() - 1;
  std::fill(tap_.begin(), tap_.end(), 0);
  while (true) {
    int64_t element = ranges_[last]->first;
    for (size_t s = 0; s < last; ++s) {
      element += (ranges_[s]->first + tap_[s] * plan_.dilations_[s]) *
                 plan_.strides_[s];
    }
    visit(element, ranges_[last]->taps, plan_.dilations_[last]);
    size_t s = last;
    while (s > 0 && ++tap_[s - 1] == ranges_[s - 1]->taps) tap_[--s] = 0;
    if (s == 0) return;
  }
}

template <typename F>
void PoolPlan::ForEachWindow(F f) const {
  if (planes_ == 0 || places_ == 0) return;
  const double work =
      static_cast<double>(places_) * (10 + std::min(window_size_, 1e6));
  ParallelFor(planes_, work, [&](int64_t begin, int64_t end) {
    Placed placed(*this);
    std::vector<int64_t> at(ranges_.size());
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t place = 0; place < places_; ++place) {
        for (size_t s = 0; s < at.size(); ++s) {
          placed.ranges_[s] = &ranges_[s][static_cast<size_t>(at[s])];
        }
        f(plane, place, placed);
        NextIndex(sides_, &at);
      }
    }
  });
}

template <typename F>
void PoolPlan::ForEachLine(F f) const {
  if (planes_ == 0 || places_ == 0) return;
  static constexpr Range kWholeLine{0, 1, 1};
  const int64_t lines = places_ / sides_.back();
  const double work =
      static_cast<double>(sides_.back()) * std::min(window_size_, 1e6);
  ParallelFor(planes_ * lines, work, [&](int64_t begin, int64_t end) {
    Placed placed(*this);
    placed.ranges_.back() = &kWholeLine;
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i % lines;
      for (size_t s = ranges_.size() - 1; s-- > 0;) {
        placed.ranges_[s] = &ranges_[s][static_cast<size_t>(rest % sides_[s])];
        rest /= sides_[s];
      }
      f(i / lines, i % lines * sides_.back(), placed);
    }
  });
}

// The tables that pool.cc puts together.
absl::Span<const OperatorDef> GlobalPoolOperators();
absl::Span<const OperatorDef> RoiOperators();

}  // namespace nodewise
