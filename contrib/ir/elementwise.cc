#include "nodewise/ir/elementwise.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <variant>

namespace nodewise {
namespace {

// BatchNormalization scales and shifts each channel, outside of training.
constexpr std::string_view kElementwiseKinds[] = {
    "Abs",         "Add",
    "And",         "BatchNormalization",
    "Cast",        "Ceil",
    "Celu",        "Clip",
    "Cos",         "Div",
    "Elu",         "Equal",
    "Erf",         "Exp",
    "Floor",       "Gelu",
    "Greater",     "GreaterOrEqual",
    "HardSigmoid", "HardSwish",
    "LeakyRelu",   "Less",
    "LessOrEqual", "Log",
    "Max",         "Mean",
    "Min",         "Mish",
    "Mul",         "Neg",
    "Not",         "Or",
    "PRelu",       "Pow",
    "Reciprocal",  "Relu",
    "Round",       "Selu",
    "Shrink",      "Sigmoid",
    "Sign",        "Sin",
    "Softplus",    "Softsign",
    "Sqrt",        "Sub",
    "Sum",         "Swish",
    "Tanh",        "ThresholdedRelu",
    "Where",       "Xor"};

// In training the statistics are those of the whole input.
bool ComputesStatistics(const Operation& operation) {
  if (operation.kind() != "BatchNormalization") return false;
  for (const NamedAttr& attr : NamedAttrsOf(operation.attrs)) {
    const auto* const flag = std::get_if<int64_t>(&attr.value);
    if (attr.name == "training_mode") return flag == nullptr || *flag != 0;
  }
  return false;
}

}  // namespace

bool IsElementwise(const Operation& operation) {
  return operation.def().domain.empty() && operation.outputs.size() == 1 &&
         std::find(std::begin(kElementwiseKinds), std::end(kElementwiseKinds),
                   operation.kind()) != std::end(kElementwiseKinds) &&
         !ComputesStatistics(operation);
}

}  // namespace nodewise
