#include "contrib/passes/merge_product.h"

#include <algorithm>
#include <cmath>

#include "contrib/passes/quantized_product.h"
#include "contrib/passes/refusal.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/activation.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/qlinear.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The operations of a product on floats. They stay valid until an edit.
struct Chain {
  const Operation* product = nullptr;
  std::vector<OperationId> dequantizes;  // For the factors, then for the bias.
  const Operation* activation = nullptr;
  const Operation* quantize = nullptr;
};

bool IsDequantize(const Network& network, ValueId id) {
  const OperationId maker = network.value(id).producer;
  return maker != kNoOperation &&
         network.operation(maker).attrs.As<ops::DequantizeLinear>() != nullptr;
}

ValueId BiasOf(const Operation& conv) {
  return conv.inputs.size() > 2 ? conv.inputs[2] : kNoValue;
}

absl::Status AddFactors(const Network& network, bool is_conv, Chain* chain) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId input = chain->product->inputs[i];
    const ProductRoles roles = RolesOf(is_conv);
    const std::string_view role = i == 0 ? roles.x : roles.w;
    if (!IsDequantize(network, input)) {
      return Refuse(fmt::format("{} is not made by DequantizeLinear", role));
    }
    const DLDataType type = network.value(input).type.dtype;
    if (!(type == kFloat32)) {
      return Refuse(fmt::format("{} is dequantised to {}, expected float32",
                                role, ToString(type)));
    }
    chain->dequantizes.push_back(network.value(input).producer);
  }
  const ValueId bias = is_conv ? BiasOf(*chain->product) : kNoValue;
  if (bias != kNoValue && IsDequantize(network, bias)) {
    chain->dequantizes.push_back(network.value(bias).producer);
  }
  for (const OperationId id : chain->dequantizes) {
    const Operation& operation = network.operation(id);
    if (operation.after.empty()) continue;
    return Refuse(fmt::format("operation {} waits for others", operation.name));
  }
  return absl::OkStatus();
}

// Finds what reads the product's result.
absl::Status AddReaders(const Network& network, Chain* chain) {
  const Operation* last = chain->product;
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, *last));
  NODEWISE_ASSIGN_OR_RETURN(OperationId next,
                            OnlyReader(network, last->outputs[0]));
  const OpAttrs& attrs = network.operation(next).attrs;
  if (attrs.As<ops::Relu>() != nullptr || attrs.As<ops::Clip>() != nullptr) {
    chain->activation = &network.operation(next);
    last = chain->activation;
    NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, *last));
    NODEWISE_ASSIGN_OR_RETURN(next, OnlyReader(network, last->outputs[0]));
  }
  chain->quantize = &network.operation(next);
  const auto* const op = chain->quantize->attrs.As<ops::QuantizeLinear>();
  if (op == nullptr) {
    return Refuse(
        fmt::format("its result is read by {}, expected "
                    "QuantizeLinear",
                    chain->quantize->kind()));
  }
  if (op->precision.has_value() && !(*op->precision == kFloat32)) {
    return Refuse(fmt::format("QuantizeLinear divides in {}, expected float32",
                              ToString(*op->precision)));
  }
  return CheckNoBarriers(network, *chain->quantize);
}

absl::StatusOr<Chain> ChainOf(const Network& network, OperationId id) {
  Chain chain;
  chain.product = &network.operation(id);
  const bool is_conv = chain.product->attrs.As<ops::Conv>() != nullptr;
  NODEWISE_RETURN_IF_ERROR(AddFactors(network, is_conv, &chain));
  NODEWISE_RETURN_IF_ERROR(AddReaders(network, &chain));
  return chain;
}

// What QuantizeLinear makes of a float32 number.
double Quantized(double x, double scale, double zero,
                 const IntegerRange& range) {
  const float quotient = static_cast<float>(x) / static_cast<float>(scale);
  const double rounded = std::nearbyint(static_cast<double>(quotient)) + zero;
  return std::clamp(rounded, range.low, range.high);
}

// Fails unless QuantizeLinear cuts off all that the activation does. Since both
// are monotonic, their ends decide.
absl::Status CheckActivation(const Network& network, const Operation& operation,
                             const ScaleFacts& y) {
  const IntegerRange range = *RangeOfType(y.type);
  const bool is_relu = operation.attrs.As<ops::Relu>() != nullptr;
  if (y.zeros.empty() || (y.scales.empty() && !is_relu)) {
    return Refuse(fmt::format(
        "the range of the output is not a constant, so {} may cut off more",
        operation.kind()));
  }
  const auto check = [&](double bound, double end) -> absl::Status {
    const double scale = y.scales.empty() ? 1 : y.scales[0];
    const double cut_at = Quantized(bound, scale, y.zeros[0], range);
    if (cut_at == end) return absl::OkStatus();
    return Refuse(
        fmt::format("{} cuts off at {} of the output's type, "
                    "expected {}, the end of its range",
                    operation.kind(), cut_at, end));
  };
  if (is_relu) return check(0, range.low);
  for (size_t i = 1; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] == kNoValue) continue;
    const auto bound = NumbersOf(network, operation.inputs[i]);
    if (!bound.has_value() || bound->size() != 1 || std::isnan((*bound)[0])) {
      return Refuse("a bound of Clip is not a constant number");
    }
    NODEWISE_RETURN_IF_ERROR(
        check((*bound)[0], i == 1 ? range.low : range.high));
  }
  return absl::OkStatus();
}

// Everything that is needed to make the merged operation.
struct MergePlan {
  QuantizedProduct product;
  std::optional<IntegerBias> bias;
  Agreement agreement = Agreement::kNotKnown;
};

absl::StatusOr<MergePlan> PlanMerge(const Network& network,
                                    const Chain& chain) {
  MergePlan plan;
  QuantizedProduct& product = plan.product;
  product.is_conv = chain.product->attrs.As<ops::Conv>() != nullptr;
  const ProductRoles roles = RolesOf(product.is_conv);
  const auto factor = [&](size_t i, std::string_view role) {
    return DequantizedBy(network.operation(chain.dequantizes[i]), role);
  };
  product.x = factor(0, roles.x);
  product.w = factor(1, roles.w);
  product.y = QuantizedBy(*chain.quantize, roles.y);
  NODEWISE_RETURN_IF_ERROR(FindFacts(network, &product));
  const ValueId bias = product.is_conv ? BiasOf(*chain.product) : kNoValue;
  if (bias != kNoValue) {
    NODEWISE_ASSIGN_OR_RETURN(plan.bias, IntegerBiasOf(network, product, bias));
    product.bias = plan.bias->numbers;
  }
  if (chain.activation != nullptr) {
    NODEWISE_RETURN_IF_ERROR(
        CheckActivation(network, *chain.activation, product.y_facts));
  }
  NODEWISE_ASSIGN_OR_RETURN(plan.agreement, AgreementOf(network, product));
  return plan;
}

// Returns the zero point, which the merged operators require: made where there
// is none.
absl::StatusOr<ValueId> ZeroOf(const QuantizedTensor& tensor,
                               std::string_view name,
                               NetworkRewriter& rewriter) {
  if (tensor.zero != kNoValue) return tensor.zero;
  const Network& network = rewriter.network();
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray zeros,
      NDArray::Empty(*network.value(tensor.scale).type.sizes(),
                     network.value(tensor.data).type.dtype, kCpu));
  std::fill_n(zeros.As<uint8_t>(), zeros.bytes(), 0);
  return rewriter.AddConstant(
      fmt::format("{}_{}_zero_point", name, tensor.role), zeros);
}

absl::StatusOr<std::vector<ValueId>> InputsOf(const MergePlan& plan,
                                              const std::string& name,
                                              NetworkRewriter& rewriter) {
  std::vector<ValueId> inputs;
  for (const QuantizedTensor* tensor : {&plan.product.x, &plan.product.w}) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId zero,
                              ZeroOf(*tensor, name, rewriter));
    inputs.insert(inputs.end(), {tensor->data, tensor->scale, zero});
  }
  NODEWISE_ASSIGN_OR_RETURN(const ValueId zero,
                            ZeroOf(plan.product.y, name, rewriter));
  inputs.insert(inputs.end(), {plan.product.y.scale, zero});
  if (!plan.bias.has_value()) return inputs;
  ValueId bias = plan.bias->value;
  if (bias == kNoValue) {
    NODEWISE_ASSIGN_OR_RETURN(
        bias, rewriter.AddConstant(name + "_bias", plan.bias->data));
  }
  inputs.push_back(bias);
  return inputs;
}

}  // namespace

bool IsQuantizedProduct(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (operation.attrs.As<ops::Conv>() == nullptr &&
      operation.attrs.As<ops::MatMul>() == nullptr) {
    return false;
  }
  return IsDequantize(network, operation.inputs[0]) ||
         IsDequantize(network, operation.inputs[1]);
}

absl::StatusOr<QuantizationReport::Change> MergeProduct(
    OperationId id, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  NODEWISE_ASSIGN_OR_RETURN(const Chain chain, ChainOf(network, id));
  NODEWISE_ASSIGN_OR_RETURN(const MergePlan plan, PlanMerge(network, chain));
  NetworkRewriter::Replacement replacement;
  replacement.old = chain.quantize->outputs[0];
  replacement.removed = {chain.quantize->id};
  if (chain.activation != nullptr) {
    replacement.removed.push_back(chain.activation->id);
  }
  replacement.removed.push_back(id);
  replacement.inputs = chain.dequantizes;
  replacement.named_like = id;
  const OperationId before = chain.quantize->id;
  const std::string name = chain.product->name;
  const OpAttrs attrs = chain.product->attrs;
  const auto* const conv = attrs.As<ops::Conv>();
  NODEWISE_ASSIGN_OR_RETURN(std::vector<ValueId> inputs,
                            InputsOf(plan, name, rewriter));
  NODEWISE_ASSIGN_OR_RETURN(
      replacement.made, conv != nullptr
                            ? rewriter.Add(ops::QLinearConv{*conv},
                                           std::move(inputs), before, name)
                            : rewriter.Add(ops::QLinearMatMul{},
                                           std::move(inputs), before, name));
  replacement.named = network.value(replacement.made).producer;
  NODEWISE_RETURN_IF_ERROR(rewriter.Replace(replacement));
  return QuantizationReport::Change{
      name, conv != nullptr ? "QLinearConv" : "QLinearMatMul", plan.agreement};
}

}  // namespace nodewise
