#include "nodewise/ops/linear_algebra.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

int64_t RowOfPivot(int64_t n, const double* a, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; ++i) {
    if (std::fabs(a[i * n + k]) > std::fabs(a[best * n + k])) best = i;
  }
  return best;
}

// The determinant of the n x n matrix `a`, which is changed on the way: by
// elimination with the largest element of each column, which keeps the factors
// at 1 or below, and each exchange of rows turns the sign.
double Determinant(int64_t n, double* a) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t best = RowOfPivot(n, a, k);
    if (best != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
      product = -product;
    }
    const double pivot = a[k * n + k];
    product *= pivot;
    if (pivot == 0) return product;
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / pivot;
      for (int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

// No determinant is larger than the product of the rows' lengths (Hadamard).
double Hadamard(int64_t n, const double* a) {
  double product = 1;
  for (int64_t i = 0; i < n; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < n; ++j) squares += a[i * n + j] * a[i * n + j];
    product *= std::sqrt(squares);
  }
  return product;
}

// How far elimination of n rows leaves an element off in practice, where `size`
// is the largest number on its way.
double ExpectedOfElimination(int64_t n, DLDataType dtype, double size,
                             double element) {
  return kExpectedFactor * static_cast<double>(n) * UnitRoundoff(dtype) * size +
         HalfUlp(dtype, element);
}

// Sides that are not known yet pass.
absl::Status RequireSquare(const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireRank(in, 0, 2, INT_MAX)));
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const Shape& x = *in.type(0).shape;
  const Dim& rows = x[x.size() - 2];
  if (!rows.is_known() || !x.back().is_known() || rows == x.back()) {
    return absl::OkStatus();
  }
  return WrongInput(0, "has matrices of {} x {}, expected square ones",
                    rows.size(), x.back().size());
}

double CubicFlops(const Inputs& in, double factor) {
  const auto sizes = in.type(0).sizes();
  if (!sizes || sizes->empty()) return 0;
  double flops = factor * static_cast<double>(sizes->back());
  for (const int64_t size : *sizes) flops *= static_cast<double>(size);
  return flops;
}

struct Det : ops::Det {
  absl::Status Check(const Inputs& in) const { return RequireSquare(in); }
  OutputInfos Infer(const Inputs& in) const {
    TensorType type = in.type(0);
    if (type.has_rank()) type.shape->resize(type.shape->size() - 2);
    return {std::move(type)};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto shape = args.shape(0);
    const int64_t n = shape.back();
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray out,
        args.MakeOutput(0, shape.first(shape.size() - 2), args.dtype(0)));
    std::vector<double> matrices = ToDoubles(args.in(0));
    // The bound in practice is relative to the largest determinant that rows of
    // these lengths can have, since digits cancel where the result is small.
    std::vector<double> results(static_cast<size_t>(CountOf(out)));
    Bounds* const bounds = args.bounds(0);
    for (size_t i = 0; i < results.size(); ++i) {
      double* const a = matrices.data() + static_cast<int64_t>(i) * n * n;
      // Determinant() changes the matrix.
      const double largest = Hadamard(n, a);
      results[i] = Determinant(n, a);
      if (bounds == nullptr) continue;
      // Elimination may let errors grow by 2^n: nothing useful is proved.
      SumBound{kUnknownError,
               ExpectedOfElimination(n, out.dtype(), largest, results[i])}
          .AppendTo(bounds);
    }
    StoreDoubles(results.data(), 0, CountOf(out), out);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return CubicFlops(in, 2.0 / 3);
  }
};

// The inverse of the n x n matrix `a`, which is changed on the way: both sides
// of (a | 1) are eliminated with the largest element of each column. A singular
// matrix gives infinities and NaN.
std::vector<double> Inverted(int64_t n, double* a) {
  std::vector<double> inverse(static_cast<size_t>(n * n));
  double* const x = inverse.data();
  for (int64_t i = 0; i < n; ++i) x[i * n + i] = 1;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t best = RowOfPivot(n, a, k);
    if (best != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
      std::swap_ranges(x + k * n, x + (k + 1) * n, x + best * n);
    }
    // The row of the pivot is divided, so that the left side becomes 1, and
    // taken away from all other rows, above it too.
    const double pivot = a[k * n + k];
    for (int64_t j = 0; j < n; ++j) {
      a[k * n + j] /= pivot;
      x[k * n + j] /= pivot;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double factor = a[i * n + k];
      if (i == k || factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        x[i * n + j] -= factor * x[k * n + j];
      }
    }
  }
  return inverse;
}

std::vector<double> AbsoluteProduct(int64_t n, const double* a,
                                    const double* b) {
  std::vector<double> product(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      const double factor = std::fabs(a[i * n + k]);
      for (int64_t j = 0; j < n; ++j) {
        product[static_cast<size_t>(i * n + j)] +=
            factor * std::fabs(b[k * n + j]);
      }
    }
  }
  return product;
}

struct Inverse : ops::Inverse, KeepsType {
  absl::Status Check(const Inputs& in) const { return RequireSquare(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const int64_t n = args.shape(0).back();
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out, args.MakeOutput(0));
    const std::vector<double> matrices = ToDoubles(args.in(0));
    std::vector<double> results;
    Bounds* const bounds = args.bounds(0);
    // Matrices without elements have no results either, and the loop does not
    // begin.
    for (size_t at = 0; at < matrices.size();
         at += static_cast<size_t>(n * n)) {
      const double* const a = matrices.data() + at;
      std::vector<double> changed(a, a + n * n);
      const std::vector<double> x = Inverted(n, changed.data());
      results.insert(results.end(), x.begin(), x.end());
      if (bounds == nullptr) continue;
      // To first order the inverse changes by |x| |error of a| |x|.
      const auto ax = AbsoluteProduct(n, a, x.data());
      // Elimination may let errors grow by 2^n: nothing useful is proved. A
      // singular matrix has no inverse.
      const bool is_regular = std::ranges::all_of(
          x, [](double value) { return std::isfinite(value); });
      for (const double size : AbsoluteProduct(n, x.data(), ax.data())) {
        const double value = x[bounds->expected.size() - at];
        SumBound{is_regular ? kUnknownError : kAnyError,
                 ExpectedOfElimination(n, out.dtype(), size, value)}
            .AppendTo(bounds);
      }
    }
    StoreDoubles(results.data(), 0, CountOf(out), out);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return CubicFlops(in, 2);
  }
};

constexpr OperatorDef kDets[] = {
    Row<ops::Det, Det>("Det", 11, {"X"}, {"Y"}, kSum),
    Row<ops::Inverse, Inverse>({.name = "Inverse",
                                .domain = "com.microsoft",
                                .inputs = {"X"},
                                .outputs = {"Y"},
                                .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> DetOperators() { return kDets; }

}  // namespace nodewise
