#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/kernels/matrix_product.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// The factor of `expected`, times u sqrt(n) (2-norm of the terms + |sum|).
// Measured over random sums of 4 to 8,192 terms (tests/contrib/ops).
inline constexpr double kExpectedFactor = 3;

// The bound of what may overflow on its way, and that of what nothing is known
// about.
inline constexpr double kAnyError = std::numeric_limits<double>::infinity();
inline constexpr double kUnknownError =
    std::numeric_limits<double>::quiet_NaN();

// A sum as a kernel calculates it in some type.
struct SumOfTerms {
  double terms = 0;     // How many; a bias counts.
  double absolute = 0;  // The sum of their absolute values.
  double squares = 0;   // The sum of their squares.
  double result = 0;
  // The size of what a kernel may meet before it is made smaller, such as the
  // sum that a mean divides.
  double on_the_way = 0;
  // What may be lost beside roundings.
  double lost = 0;

  // Adds one term to the three sums. `terms` is left to the caller, who mostly
  // knows it beforehand and may count terms that are 0.
  void Add(double term) {
    absolute += std::fabs(term);
    squares += term * term;
    result += term;
  }
};
struct SumBound {
  double proved;
  double expected;

  void SetAt(size_t element, Bounds* bounds) const {
    bounds->proved[element] = proved;
    bounds->expected[element] = expected;
  }
  void AppendTo(Bounds* bounds) const {
    bounds->proved.push_back(proved);
    bounds->expected.push_back(expected);
  }
};

// Makes room for the bounds of so many elements.
void ResizeBounds(int64_t count, Bounds* bounds);
// Returns the bounds of an output with room for so many elements, to be set in
// any order; null if none are wanted.
Bounds* SizedBounds(EvalArgs& args, size_t output, int64_t count);
// Gives so many elements the same two bounds. Does nothing if `bounds` is null.
void SetAllBounds(int64_t count, double bound, Bounds* bounds);

// Returns the bounds of a kernel of type `dtype` against the reference, whose
// own rounding counts too. Each term may be a product that is rounded. NaN
// where the kernel may meet an infinity on its way.
SumBound BoundSum(DLDataType dtype, const SumOfTerms& sum);

// Replaces the sums of absolute values in `bounds->proved` and the sums of
// squares in `bounds->expected` by the bounds of all elements of an output.
// Kernels may meet sums that are `way` times as large.
void BoundSums(const NDArray& output, double terms, Bounds* bounds,
               double way = 1);

// As BoundSums(), of some elements of the output.
void BoundSumsAt(const NDArray& output, absl::Span<const int64_t> elements,
                 double terms, Bounds* bounds, double way = 1);

// Tells whether a kernel that meets numbers of a size overflows, although all
// that it is given is finite. Where kernels calculate with doubles, an overflow
// of the reference cannot be told from an infinity that was given.
class OverflowRule {
 public:
  explicit OverflowRule(DLDataType dtype);

  bool operator()(double size) const {
    return size > largest_ && (is_widest_ || size < kInfinity);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest_;
  const bool is_widest_;
};

// Returns how far (sum of so many terms |x|^p)^(1/p) may be off because the
// terms underflow.
double UnderflowLossInPowers(DLDataType dtype, double terms, double p,
                             double sum);

// Returns OperatorDef::least_bound of sums of at least so many terms.
double LeastBoundOfSum(double terms);

// Finds what the bounds of single elements of a matrix product need, where all
// of them would take twice as long as the product itself: sets
// `bounds->proved` to the sums of the absolute values of the terms of each
// element and `bounds->expected` to those of their squares, in the order of the
// elements, in threads. Element `e` is the one in column e % columns of row e /
// columns, the rows of all items counted one after the other. The functions are
// those of MultiplyMatrices(); they are asked for one row, and for a few
// columns in one strip, at a time. REQUIRES: the elements are in ascending
// order.
void SumTermsAt(const ProductSizes& sizes, PackStrips left, PackStrips right,
                absl::Span<const int64_t> elements, Bounds* bounds);

}  // namespace nodewise
