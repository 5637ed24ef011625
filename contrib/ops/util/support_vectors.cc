#include "contrib/ops/util/support_vectors.h"

#include <algorithm>
#include <cmath>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

void AddTerm(double term, SumOfTerms* sum) {
  sum->terms += 1;
  sum->absolute += std::fabs(term);
  sum->squares += term * term;
  sum->result += term;
}

double Power(double x, double degree) { return std::pow(x, degree); }
double Exponential(double x, double /*unused*/) { return std::exp(x); }
double HyperbolicTangent(double x, double /*unused*/) { return std::tanh(x); }

// The square of the distance.
Approximate Distance(absl::Span<const double> x, absl::Span<const float> y) {
  SumOfTerms sum;
  double rounding = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double between = x[i] - static_cast<double>(y[i]);
    AddTerm(between * between, &sum);
    // The difference is rounded before it is squared.
    rounding += 3 * UnitRoundoff(kFloat32) * between * between;
  }
  Approximate distance = Approximate::Of(sum);
  distance.proved += rounding;
  distance.expected += rounding;
  return distance;
}

}  // namespace

Approximate DotProduct(absl::Span<const double> x, absl::Span<const float> y,
                       double addend) {
  SumOfTerms sum;
  for (size_t i = 0; i < y.size(); ++i) {
    AddTerm(x[i] * static_cast<double>(y[i]), &sum);
  }
  if (addend != 0) AddTerm(addend, &sum);
  return Approximate::Of(sum);
}

Approximate WeightedSum(absl::Span<const Approximate> x,
                        absl::Span<const float> weights, double addend) {
  SumOfTerms sum;
  Approximate carried;
  for (size_t i = 0; i < x.size(); ++i) {
    const Approximate term = Times(x[i], static_cast<double>(weights[i]));
    AddTerm(term.value, &sum);
    carried.proved += term.proved;
    carried.expected += term.expected;
  }
  if (addend != 0) AddTerm(addend, &sum);
  return Plus(Approximate::Of(sum), carried);
}

Approximate KernelOf(const ops::SupportVectors& op, absl::Span<const double> x,
                     absl::Span<const float> y) {
  const auto parameter = [&op](size_t i) {
    return op.kernel_params.empty() ? 0.0
                                    : static_cast<double>(op.kernel_params[i]);
  };
  const double gamma = parameter(0);
  if (op.kernel_type == ops::SvmKernel::kRbf) {
    return Through(&Exponential, 0, Times(Distance(x, y), -gamma).Rounded(), 4);
  }
  const Approximate product = DotProduct(x, y, 0);
  if (op.kernel_type == ops::SvmKernel::kLinear) return product;
  const Approximate shifted =
      Plus(Times(product, gamma).Rounded(), {parameter(1), 0, 0}).Rounded();
  if (op.kernel_type == ops::SvmKernel::kPoly) {
    return Through(&Power, parameter(2), shifted, 8);
  }
  return Through(&HyperbolicTangent, 0, shifted, 8);
}

std::vector<double> ProbabilitiesOf(absl::Span<const double> pairs,
                                    size_t classes) {
  constexpr int kMostSteps = 100;
  const size_t k = classes;
  // The matrix whose form is to be made least.
  std::vector<double> q(k * k, 0);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      const double other = pairs[j * k + i];
      q[i * k + i] += other * other;
      q[i * k + j] = -other * pairs[i * k + j];
    }
  }
  std::vector<double> p(k, 1.0 / static_cast<double>(k));
  std::vector<double> qp(k);
  for (int step = 0; step < kMostSteps; ++step) {
    double pqp = 0;
    for (size_t i = 0; i < k; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < k; ++j) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    double error = 0;
    for (const double each : qp) error = std::max(error, std::fabs(each - pqp));
    if (error < 0.005 / static_cast<double>(k)) break;
    for (size_t i = 0; i < k; ++i) {
      const double move = (pqp - qp[i]) / q[i * k + i];
      const double scale = 1 + move;
      pqp = (pqp + move * (move * q[i * k + i] + 2 * qp[i])) / scale / scale;
      p[i] += move;
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + move * q[i * k + j]) / scale;
        p[j] /= scale;
      }
    }
  }
  return p;
}

}  // namespace nodewise
