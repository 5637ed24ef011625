#include "nodewise/ops/det.h"

#include <cmath>
#include <limits>

#include "contrib/ops/util/matmul_parts.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The determinant of the n x n matrix `a`, which is changed on the way: by
// elimination with the largest element of each column.
double Determinant(int64_t n, double* a) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[best * n + k])) best = i;
    }
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

struct Det : ops::Det {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireRank(in, 0, 2, INT_MAX)));
    if (!in.type(0).has_rank()) return absl::OkStatus();
    const Shape& x = *in.type(0).shape;
    const Dim& rows = x[x.size() - 2];
    if (!rows.is_known() || !x.back().is_known() ||
        rows.size() == x.back().size()) {
      return absl::OkStatus();
    }
    return InputError(0, fmt::format("has matrices of {} x {}, expected "
                                     "square ones",
                                     rows.size(), x.back().size()));
  }
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
    std::vector<double> results(static_cast<size_t>(CountOf(out)));
    Bounds* const bounds = args.bounds(0);
    for (size_t i = 0; i < results.size(); ++i) {
      double* const a = matrices.data() + static_cast<int64_t>(i) * n * n;
      const double largest = Hadamard(n, a);
      results[i] = Determinant(n, a);
      if (bounds == nullptr) continue;
      // Elimination may let errors grow by 2^n: nothing useful is proved.
      bounds->proved.push_back(std::numeric_limits<double>::quiet_NaN());
      bounds->expected.push_back(kExpectedFactor * static_cast<double>(n) *
                                     UnitRoundoff(out.dtype()) * largest +
                                 HalfUlp(out.dtype(), results[i]));
    }
    StoreDoubles(results.data(), 0, CountOf(out), out);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const auto sizes = in.type(0).sizes();
    if (!sizes || sizes->empty()) return 0;
    double flops = 2.0 / 3 * static_cast<double>(sizes->back());
    for (const int64_t size : *sizes) flops *= static_cast<double>(size);
    return flops;
  }
};

constexpr OperatorDef kDets[] = {
    Row<ops::Det, Det>({.name = "Det",
                        .since = 11,
                        .inputs = {"X"},
                        .outputs = {"Y"},
                        .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> DetOperators() { return kDets; }

}  // namespace nodewise
