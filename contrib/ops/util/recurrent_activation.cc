#include <cmath>

#include "absl/strings/match.h"
#include "contrib/ops/util/recurrent.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

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

absl::StatusOr<const ActivationRow*> RowNamed(std::string_view name) {
  const ActivationRow* const row = Find(name);
  if (row != nullptr) return row;
  std::string all;
  for (const ActivationRow& known : kActivations) {
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  return AttributeError(
      "activations", fmt::format("has \"{}\", expected one of {}", name, all));
}

}  // namespace

Activation FunctionOf(const ops::CellActivation& activation) {
  const ActivationRow* const row = Find(activation.name);
  NODEWISE_CHECK(row != nullptr);
  return {row->function, activation.alpha, activation.beta, 0, row->cancels};
}

namespace ops {

absl::StatusOr<std::vector<CellActivation>> ActivationsOf(
    const RecurrentAttributes& attributes,
    absl::Span<const char* const> usual) {
  const std::vector<std::string>& names = attributes.activations;
  const size_t directions =
      attributes.direction == Direction::kBidirectional ? 2 : 1;
  const size_t count = usual.size() * directions;
  if (!names.empty() && names.size() < count) {
    return AttributeError(
        "activations",
        fmt::format("has {} names, expected {}", names.size(), count));
  }
  std::vector<CellActivation> all;
  size_t alphas = 0;
  size_t betas = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name =
        names.empty() ? usual[i % usual.size()] : std::string_view(names[i]);
    NODEWISE_ASSIGN_OR_RETURN(const ActivationRow* const row, RowNamed(name));
    CellActivation made{row->name, row->alpha, row->beta};
    if (row->takes_alpha && alphas < attributes.activation_alpha.size()) {
      made.alpha = attributes.activation_alpha[alphas++];
    }
    if (row->takes_beta && betas < attributes.activation_beta.size()) {
      made.beta = attributes.activation_beta[betas++];
    }
    all.push_back(made);
  }
  return all;
}

}  // namespace ops
}  // namespace nodewise
