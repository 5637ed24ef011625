#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Two tensors of one shape and type, and which of their elements are wrong.
class TensorPair {
 public:
  TensorPair(const DLTensor& expected, const DLTensor& actual,
             const Metrics& metrics, Tolerance tolerance)
      : expected_(static_cast<const uint8_t*>(DataOf(expected))),
        actual_(static_cast<const uint8_t*>(DataOf(actual))),
        shape_(ShapeOf(expected)),
        dtype_(expected.dtype),
        metrics_(metrics),
        tolerance_(tolerance),
        element_bytes_(ElementBytes(expected.dtype)) {
    if (metrics.outside == 0) {
      tolerance_ = {metrics.largest_error.error / kShareOfLargest, 0};
    }
  }

  size_t elements() const { return metrics_.elements; }
  absl::Span<const int64_t> shape() const { return shape_; }
  DLDataType dtype() const { return dtype_; }
  const Metrics& metrics() const { return metrics_; }
  const uint8_t* expected_bytes() const { return expected_; }
  const uint8_t* actual_bytes() const { return actual_; }

  double Expected(size_t i) const { return At(expected_, i); }
  double Actual(size_t i) const { return At(actual_, i); }
  // Returns whether `y` in the place of `x` is wrong.
  bool IsWrong(double x, double y) const {
    if (x == y || (std::isnan(x) && std::isnan(y))) return false;
    return !(std::fabs(y - x) <=
             tolerance_.absolute + tolerance_.relative * std::fabs(x));
  }

  // Calls f(i, expected, actual) for all elements in their order, until it
  // returns false.
  template <typename F>
  void ForEach(F f) const {
    constexpr size_t kPairBlock = 1024;
    std::array<double, kPairBlock> x, y;
    for (size_t first = 0; first < elements(); first += kPairBlock) {
      const size_t n = std::min(kPairBlock, elements() - first);
      DecodeToDoubles(dtype_, expected_ + first * element_bytes_, n, x.data());
      DecodeToDoubles(dtype_, actual_ + first * element_bytes_, n, y.data());
      for (size_t i = 0; i < n; ++i) {
        if (!f(first + i, x[i], y[i])) return;
      }
    }
  }

 private:
  static constexpr double kShareOfLargest = 8;

  double At(const uint8_t* data, size_t i) const {
    double value = 0;
    DecodeToDoubles(dtype_, data + i * element_bytes_, 1, &value);
    return value;
  }

  const uint8_t* const expected_;
  const uint8_t* const actual_;
  const absl::Span<const int64_t> shape_;
  const DLDataType dtype_;
  const Metrics& metrics_;
  Tolerance tolerance_;
  const size_t element_bytes_;
};

// Returns how far the elements along each axis lie apart.
inline std::vector<size_t> StridesOf(absl::Span<const int64_t> shape) {
  std::vector<size_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * static_cast<size_t>(shape[axis]);
  }
  return strides;
}

// Returns whether `wrong` elements drawn at random would all lie in a part of
// this share so seldom that the part is worth naming. The first element says
// which part it is.
inline bool IsTelling(uint64_t wrong, double share) {
  constexpr double kLogOfMillion = 13.8;
  return share < 1 && wrong > 1 &&
         -std::log(share) * static_cast<double>(wrong - 1) > kLogOfMillion;
}

// Each adds the patterns that it finds.
void AddValuePatterns(const TensorPair& pair, DifferenceDetails* details);
void AddMovePatterns(const TensorPair& pair, DifferenceDetails* details);
void AddPlacePatterns(const TensorPair& pair, DifferenceDetails* details);

}  // namespace nodewise
