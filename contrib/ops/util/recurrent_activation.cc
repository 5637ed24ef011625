#include <cmath>

#include "absl/strings/match.h"
#include "contrib/ops/util/recurrent.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

struct ActivationRow {
  std::string_view name;
  double (*function)(double x, double alpha, double beta);
  double alpha = 0;
  double beta = 0;
  bool takes_alpha = false;
  bool takes_beta = false;
  bool cancels = false;
};

constexpr ActivationRow kActivations[] = {
    {"Relu", [](double x, double, double) { return x < 0 ? 0 : x; }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"Sigmoid",
     [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {"Affine", [](double x, double a, double b) { return a * x + b; }, 1, 0,
     true, true, true},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; },
     0.01f, 0, true, false},
    {"ThresholdedRelu",
     [](double x, double a, double) { return x <= a ? 0 : x; }, 1, 0, true,
     false},
    {"ScaledTanh",
     [](double x, double a, double b) { return a * std::tanh(b * x); }, 1, 1,
     true, true},
    {"HardSigmoid",
     [](double x, double a, double b) {
       const double y = a * x + b;
       return y < 0 ? 0 : y > 1 ? 1 : y;
     },
     0.2f, 0.5, true, true, true},
    {"Elu",
     [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; },
     1, 0, true, false, true},
    {"Softsign",
     [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Softplus",
     [](double x, double, double) {
       return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
     },
     0, 0, false, false, true},
};

const ActivationRow* Find(std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    // The standard writes them with capitals, exporters do not always.
    if (absl::EqualsIgnoreCase({row.name.data(), row.name.size()},
                               {name.data(), name.size()})) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Activation> ActivationNamed(std::string_view name) {
  const ActivationRow* const row = Find(name);
  if (row != nullptr) {
    return Activation{row->function, row->alpha, row->beta, 0, row->cancels};
  }
  std::string all;
  for (const ActivationRow& known : kActivations) {
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  return absl::InvalidArgumentError(fmt::format(
      "attribute activations: has \"{}\", expected one of {}", name, all));
}

bool TakesAlpha(std::string_view name) {
  const ActivationRow* const row = Find(name);
  return row != nullptr && row->takes_alpha;
}
bool TakesBeta(std::string_view name) {
  const ActivationRow* const row = Find(name);
  return row != nullptr && row->takes_beta;
}

}  // namespace nodewise
