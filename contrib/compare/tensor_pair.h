#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nodewise/compare/metrics.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Two tensors of one shape and type, and which of their elements are wrong.
struct TensorPair {
  const uint8_t* expected;
  const uint8_t* actual;
  absl::Span<const int64_t> shape;
  DLDataType dtype;
  const Metrics& metrics;
  Tolerance tolerance;
  size_t elements = metrics.elements;
  size_t element_bytes = ElementBytes(dtype);

  double At(const uint8_t* data, size_t i) const {
    double value = 0;
    DecodeToDoubles(dtype, data + i * element_bytes, 1, &value);
    return value;
  }
  double Expected(size_t i) const { return At(expected, i); }
  double Actual(size_t i) const { return At(actual, i); }
  // Returns whether `y` in the place of `x` is wrong.
  bool IsWrong(double x, double y) const {
    if (x == y || (std::isnan(x) && std::isnan(y))) return false;
    return !(std::fabs(y - x) <=
             tolerance.absolute + tolerance.relative * std::fabs(x));
  }

  // Calls f(i, expected, actual) for all elements in their order, until it
  // returns false.
  template <typename F>
  void ForEach(F f) const {
    constexpr size_t kPairBlock = 1024;
    std::array<double, kPairBlock> x, y;
    for (size_t first = 0; first < elements; first += kPairBlock) {
      const size_t n = std::min(kPairBlock, elements - first);
      DecodeToDoubles(dtype, expected + first * element_bytes, n, x.data());
      DecodeToDoubles(dtype, actual + first * element_bytes, n, y.data());
      for (size_t i = 0; i < n; ++i) {
        if (!f(first + i, x[i], y[i])) return;
      }
    }
  }
};

}  // namespace nodewise
