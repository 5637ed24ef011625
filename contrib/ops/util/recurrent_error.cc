#include "contrib/ops/util/recurrent_error.h"

#include <cmath>
#include <limits>

namespace nodewise {
namespace {

// Roundings of a function that a kernel calculates.
constexpr double kFunctionRoundings = 8;

// The largest difference between f(x) and `f` of a number within `error` of x.
// Between its ends a function of the standard is largest or smallest at 0, or
// where ThresholdedRelu jumps.
double Spread(const Activation& f, double x, double error) {
  if (!(error > 0)) return error;  // NaN too.
  const double y = f(x);
  double spread =
      std::max(std::fabs(f(x - error) - y), std::fabs(f(x + error) - y));
  const double beyond =
      std::nextafter(f.alpha, std::numeric_limits<double>::infinity());
  for (const double at : {0.0, f.alpha, beyond}) {
    if (std::fabs(at - x) > error) continue;
    spread = std::max(spread, std::fabs(f(at) - y));
  }
  return spread;
}

}  // namespace

void CellNumbers::AddUp(const CellWeights& weights, const double* inputs,
                        const double* h, int64_t first, int64_t count,
                        double* sums) {
  for (int64_t j = first; j < first + count; ++j) {
    sums[j] = weights.bias[static_cast<size_t>(j)];
    if (inputs != nullptr) sums[j] += inputs[j];
  }
  const double* row = weights.recurrent.data();
  for (int64_t k = 0; k < weights.hidden; ++k) {
    const double factor = h[k];
    for (int64_t j = first; j < first + count; ++j) sums[j] += factor * row[j];
    row += weights.columns();
  }
}

RoughNumber CellErrors::Rounded(double value, double proved,
                                double expected) const {
  const double rounding = u_ * std::fabs(value) + tiny_;
  return {value, proved + rounding + u_ * proved,
          expected + rounding + u_ * expected};
}

RoughNumber CellErrors::Of(const SumOfTerms& input) const {
  const SumBound bound = BoundSum(dtype_, input);
  return {input.result, bound.proved, bound.expected};
}

RoughNumber CellErrors::Add(const RoughNumber& a, const RoughNumber& b) const {
  return Rounded(a.value + b.value, a.proved + b.proved,
                 std::hypot(a.expected, b.expected));
}

RoughNumber CellErrors::Multiply(const RoughNumber& a,
                                 const RoughNumber& b) const {
  const double of_a = std::fabs(b.value);
  const double of_b = std::fabs(a.value);
  return Rounded(a.value * b.value,
                 of_a * a.proved + of_b * b.proved + a.proved * b.proved,
                 std::hypot(of_a * a.expected, of_b * b.expected) +
                     a.expected * b.expected);
}

RoughNumber CellErrors::Complement(const RoughNumber& a) const {
  return Rounded(1 - a.value, a.proved, a.expected);
}

RoughNumber CellErrors::Apply(const Activation& f, const RoughNumber& x) const {
  const double y = f(x.value);
  const double size = f.cancels ? 1 + std::fabs(f.alpha * x.value) +
                                      std::fabs(f.alpha) + std::fabs(f.beta)
                                : 0;
  const double rounding =
      kFunctionRoundings * (u_ * std::max(std::fabs(y), size) + tiny_);
  return Rounded(y, Spread(f, x.value, x.proved) + rounding,
                 Spread(f, x.value, x.expected) + rounding);
}

void CellErrors::AddUp(const CellWeights& weights, const SumOfTerms* inputs,
                       const RoughNumber* h, int64_t first, int64_t count,
                       RoughNumber* sums) const {
  for (int64_t j = first; j < first + count; ++j) {
    const double bias = weights.bias[static_cast<size_t>(j)];
    SumOfTerms sum;
    if (inputs != nullptr) sum = inputs[j];
    sum.terms += static_cast<double>(weights.hidden) + 1;
    sum.absolute += std::fabs(bias);
    sum.squares += bias * bias;
    sum.result += bias;
    double proved = 0;
    double squares = 0;
    if (inputs != nullptr && !weights.input_errors.empty()) {
      const SumBound& error = weights.input_errors[static_cast<size_t>(j)];
      proved = error.proved;
      squares = error.expected * error.expected;
    }
    for (int64_t k = 0; k < weights.hidden; ++k) {
      const double weight =
          weights.recurrent[static_cast<size_t>(k * weights.columns() + j)];
      const double term = weight * h[k].value;
      sum.absolute += std::fabs(term);
      sum.squares += term * term;
      sum.result += term;
      proved += std::fabs(weight) * h[k].proved;
      const double expected = weight * h[k].expected;
      squares += expected * expected;
    }
    const SumBound fresh = BoundSum(dtype_, sum);
    sums[j] = {sum.result, fresh.proved + proved * (1 + sum.terms * u_),
               fresh.expected + std::sqrt(squares)};
  }
}

}  // namespace nodewise
