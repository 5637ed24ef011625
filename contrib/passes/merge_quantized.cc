// Merges operations on floats between DequantizeLinear and QuantizeLinear into
// one on integers. Everything is checked before the first edit, and each check
// that fails says in the words of a report why the operation is left alone: a
// merge must not make results differ by more than a step of the output.

#include <algorithm>
#include <cmath>

#include "contrib/passes/network_rewriter.h"
#include "contrib/passes/quantization_rewrites.h"
#include "contrib/passes/quantized_product.h"
#include "contrib/passes/quantized_tensor.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

std::string NameOfType(const Network& network, ValueId id) {
  return ToString(TensorType(TypeOf(network, id)));
}

// Overflow shows as infinity.
double RoundedTo(DLDataType dtype, double x) {
  VisitOneOf(FloatElements(), dtype, [&x](auto element) {
    x = ToDouble(FromDouble<typename decltype(element)::Stored>(x));
  });
  return x;
}

// Fails unless both calculate alike: with the same numbers, and in the type of
// the scale.
absl::Status CheckAlike(const Network& network, const Operation& quantize,
                        const Operation& dequantize) {
  const QuantizedTensor y = QuantizedBy(quantize, "y");
  if (!AreScaledAlike(network, y, DequantizedBy(dequantize, "x"))) {
    return Refuse(
        "its scale or zero point, or how it applies to the data, is not that "
        "of {}",
        dequantize.name);
  }
  NODEWISE_RETURN_IF_ERROR(CheckScales(network, y));
  const auto& op = *quantize.attrs.As<ops::QuantizeLinear>();
  const DLDataType scale = TypeOf(network, y.scale);
  if (!op.precision.has_value() || *op.precision == scale) {
    return absl::OkStatus();
  }
  return Refuse("it divides in {}, expected {} as its scale is",
                ToString(*op.precision), NameOfType(network, y.scale));
}

// Fails unless quantising what was dequantised gives every integer back:
// unless each of both roundings to the float type is off by less than a quarter
// of a step.
absl::Status CheckRoundTripIsExact(const Network& network,
                                   const QuantizedTensor& from) {
  const auto range = RangeOfType(TypeOf(network, from.data));
  const auto scales = NumbersOf(network, from.scale);
  if (!range.has_value()) {
    return Refuse("the integers are of type {}, expected one of 8 or 16 bits",
                  NameOfType(network, from.data));
  }
  if (!scales.has_value()) {
    return Refuse("its scale is not a constant, so it may be 0");
  }
  const double largest = LargestDistance(*range, ZerosOf(network, from));
  const DLDataType dtype = TypeOf(network, from.scale);
  const double roundoff = UnitRoundoff(dtype);
  for (const double scale : *scales) {
    const bool is_exact = IsPowerOfTwo(scale) && largest * roundoff <= 1;
    const bool is_near = is_exact || largest * roundoff * 2.1 < 0.5;
    if (is_near && std::isfinite(RoundedTo(dtype, largest * scale))) continue;
    return Refuse(
        "{} does not hold all integers times {} exactly enough to give them "
        "back",
        ToString(dtype), scale);
  }
  return absl::OkStatus();
}

// Fails unless the pair can be replaced as a whole: an output of the network
// between the two, or a barrier, would be lost.
absl::Status CheckPair(const Network& network, const Operation& quantize,
                       const Operation& dequantize) {
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, quantize));
  if (!dequantize.after.empty()) {
    return Refuse("operation {} waits for others", dequantize.name);
  }
  const ValueId result = quantize.outputs[0];
  if (network.IsOutput(result)) {
    return Refuse("its result is an output of the network");
  }
  return CheckAlike(network, quantize, dequantize);
}

// Between the two stand integers and floats of given types, which a removal
// must not change for those who read them.
absl::Status CheckRemovable(const Network& network, const Operation& quantize,
                            const Operation& dequantize) {
  NODEWISE_RETURN_IF_ERROR(CheckPair(network, quantize, dequantize));
  const QuantizedTensor from = DequantizedBy(dequantize, "x");
  const ValueId floats = dequantize.outputs[0];
  const ValueId result = quantize.outputs[0];
  if (!(TypeOf(network, from.data) == TypeOf(network, result))) {
    return Refuse("its result is {}, and {} reads {}",
                  NameOfType(network, result), dequantize.name,
                  NameOfType(network, from.data));
  }
  if (!(TypeOf(network, floats) == TypeOf(network, from.scale))) {
    return Refuse("its input is {}, expected {} as its scale is",
                  NameOfType(network, floats), NameOfType(network, from.scale));
  }
  return CheckRoundTripIsExact(network, from);
}

// Returns the FakeQuantize that does what both operations do. It gives the
// floats back in the type that it reads. The integers between are of the zero
// point's type unless the attribute says another.
absl::StatusOr<ops::FakeQuantize> FakeQuantizeOf(const Network& network,
                                                 const Operation& quantize,
                                                 const Operation& dequantize,
                                                 ValueId zero) {
  const ValueId x = quantize.inputs[0];
  const DLDataType type = TypeOf(network, x);
  if (!IsFloat(type) || !(type == TypeOf(network, dequantize.outputs[0]))) {
    return Refuse(
        "its input is {}, and what {} makes {}, expected one float type",
        NameOfType(network, x), dequantize.name,
        NameOfType(network, dequantize.outputs[0]));
  }
  const auto& op = *quantize.attrs.As<ops::QuantizeLinear>();
  ops::FakeQuantize fake{op.axis, op.block_size, std::nullopt};
  const DLDataType between = TypeOf(network, quantize.outputs[0]);
  if (between.bits != 0 && between.code != kDLInt && between.code != kDLUInt) {
    return Refuse("its result is {}, expected an integer", ToString(between));
  }
  const DLDataType told = zero == kNoValue ? kUint8 : TypeOf(network, zero);
  if (between.bits != 0 && !(between == told)) fake.output_dtype = between;
  return fake;
}

// The operations of a product on floats. They stay valid until an edit.
struct Chain {
  const Operation* product = nullptr;
  std::vector<OperationId> dequantizes;  // For the factors, then for the bias.
  const Operation* activation = nullptr;
  const Operation* quantize = nullptr;
};

// Both factors must come out of DequantizeLinear. A bias may be a constant of
// floats, which is turned into integers later.
absl::Status AddFactors(const Network& network, bool is_conv, Chain* chain) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId input = chain->product->inputs[i];
    const ProductRoles roles = RolesOf(is_conv);
    const std::string_view role = i == 0 ? roles.x : roles.w;
    const Operation* const maker = DequantizeOf(network, input);
    if (maker == nullptr) {
      return Refuse("{} is not made by DequantizeLinear", role);
    }
    const DLDataType type = network.value(input).type.dtype;
    if (!(type == kFloat32)) {
      return Refuse("{} is dequantised to {}, expected float32", role,
                    ToString(type));
    }
    chain->dequantizes.push_back(maker->id);
  }
  const ValueId bias = is_conv ? InputOf(*chain->product, 2) : kNoValue;
  const Operation* const bias_maker =
      bias == kNoValue ? nullptr : DequantizeOf(network, bias);
  if (bias_maker != nullptr) chain->dequantizes.push_back(bias_maker->id);
  for (const OperationId id : chain->dequantizes) {
    const Operation& operation = network.operation(id);
    if (operation.after.empty()) continue;
    return Refuse("operation {} waits for others", operation.name);
  }
  return absl::OkStatus();
}

// A Relu or Clip may stand between the product and its QuantizeLinear.
absl::Status AddReaders(const Network& network, Chain* chain) {
  const Operation* last = chain->product;
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, *last));
  NODEWISE_ASSIGN_OR_RETURN(OperationId next,
                            OnlyReader(network, last->outputs[0]));
  if (const Operation& activation = network.operation(next);
      Is<ops::Relu>(activation) || Is<ops::Clip>(activation)) {
    last = chain->activation = &activation;
    NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, *last));
    NODEWISE_ASSIGN_OR_RETURN(next, OnlyReader(network, last->outputs[0]));
  }
  chain->quantize = &network.operation(next);
  const auto* const op = chain->quantize->attrs.As<ops::QuantizeLinear>();
  if (op == nullptr) {
    return Refuse("its result is read by {}, expected QuantizeLinear",
                  chain->quantize->kind());
  }
  if (op->precision.has_value() && !(*op->precision == kFloat32)) {
    return Refuse("QuantizeLinear divides in {}, expected float32",
                  ToString(*op->precision));
  }
  return CheckNoBarriers(network, *chain->quantize);
}

absl::StatusOr<Chain> ChainOf(const Network& network, OperationId id) {
  Chain chain;
  chain.product = &network.operation(id);
  const bool is_conv = Is<ops::Conv>(*chain.product);
  NODEWISE_RETURN_IF_ERROR(AddFactors(network, is_conv, &chain));
  NODEWISE_RETURN_IF_ERROR(AddReaders(network, &chain));
  return chain;
}

// Returns the integer that QuantizeLinear makes of a float32 number.
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
  const bool is_relu = Is<ops::Relu>(operation);
  if (y.zeros.empty() || (y.scales.empty() && !is_relu)) {
    return Refuse(
        "the range of the output is not a constant, so {} may cut off more",
        operation.kind());
  }
  const auto check = [&](double bound, double end) -> absl::Status {
    const double scale = y.scales.empty() ? 1 : y.scales[0];
    const double cut_at = Quantized(bound, scale, y.zeros[0], range);
    if (cut_at == end) return absl::OkStatus();
    return Refuse(
        "{} cuts off at {} of the output's type, expected {}, the end of its "
        "range",
        operation.kind(), cut_at, end);
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

struct MergePlan {
  QuantizedProduct product;
  std::optional<IntegerBias> bias;
  Agreement agreement = Agreement::kNotKnown;
};

absl::StatusOr<MergePlan> PlanMerge(const Network& network,
                                    const Chain& chain) {
  MergePlan plan;
  QuantizedProduct& product = plan.product;
  product.is_conv = Is<ops::Conv>(*chain.product);
  const ProductRoles roles = RolesOf(product.is_conv);
  const auto factor = [&](size_t i, std::string_view role) {
    return DequantizedBy(network.operation(chain.dequantizes[i]), role);
  };
  product.x = factor(0, roles.x);
  product.w = factor(1, roles.w);
  product.y = QuantizedBy(*chain.quantize, roles.y);
  NODEWISE_RETURN_IF_ERROR(FindFacts(network, &product));
  const ValueId bias = product.is_conv ? InputOf(*chain.product, 2) : kNoValue;
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

// In the order of QLinearConv and QLinearMatMul: data, scale and zero point of
// both factors, scale and zero point of the result, then the bias.
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

bool QuantizesDequantized(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  return Is<ops::QuantizeLinear>(operation) &&
         DequantizeOf(network, operation.inputs[0]) != nullptr;
}

bool DequantizesQuantized(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (!Is<ops::QuantizeLinear>(operation)) return false;
  const auto& uses = network.value(operation.outputs[0]).uses;
  return std::ranges::any_of(uses, [&](const Use& use) {
    return use.slot == 0 &&
           Is<ops::DequantizeLinear>(network.operation(use.user));
  });
}

// The DequantizeLinear goes only if nothing else reads it.
RewriteResult RemovePair(OperationId quantize, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation& operation = network.operation(quantize);
  const Operation& maker = *network.MakerOf(operation.inputs[0]);
  NODEWISE_RETURN_IF_ERROR(CheckRemovable(network, operation, maker));
  const std::string name = operation.name;
  NODEWISE_RETURN_IF_ERROR(rewriter.RedirectUses(
      maker.inputs[0], operation.outputs[0], {quantize}, {maker.id}));
  return QuantizationReport::Change{name, "", Agreement::kExact};
}

RewriteResult MergeFakeQuantize(OperationId quantize,
                                NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation& first = network.operation(quantize);
  NODEWISE_ASSIGN_OR_RETURN(const OperationId reader,
                            OnlyReader(network, first.outputs[0]));
  const Operation& second = network.operation(reader);
  NODEWISE_RETURN_IF_ERROR(CheckPair(network, first, second));
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, second));
  // Edits move operations in memory, so all is read before the first of them.
  const ValueId old = second.outputs[0];
  const QuantizedTensor y = QuantizedBy(first, "y");
  const QuantizedTensor x = DequantizedBy(second, "x");
  const ValueId zero = y.zero != kNoValue ? y.zero : x.zero;
  NODEWISE_ASSIGN_OR_RETURN(const ops::FakeQuantize fake,
                            FakeQuantizeOf(network, first, second, zero));
  std::vector<ValueId> inputs = {first.inputs[0], y.scale};
  if (zero != kNoValue) inputs.push_back(zero);
  const std::string name = first.name;
  NODEWISE_RETURN_IF_ERROR(rewriter.EnsureOpset("nodewise"));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId made, rewriter.Add(fake, std::move(inputs), reader, name));
  NODEWISE_RETURN_IF_ERROR(rewriter.Replace({.old = old,
                                             .made = made,
                                             .removed = {reader, quantize},
                                             .named_like = quantize}));
  return QuantizationReport::Change{name, "FakeQuantize", Agreement::kExact};
}

bool IsQuantizedProduct(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (!Is<ops::Conv>(operation) && !Is<ops::MatMul>(operation)) return false;
  return DequantizeOf(network, operation.inputs[0]) != nullptr ||
         DequantizeOf(network, operation.inputs[1]) != nullptr;
}

// All is planned before the first edit, after which references into the
// network are not valid any more.
RewriteResult MergeProduct(OperationId id, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  NODEWISE_ASSIGN_OR_RETURN(const Chain chain, ChainOf(network, id));
  NODEWISE_ASSIGN_OR_RETURN(const MergePlan plan, PlanMerge(network, chain));
  NetworkRewriter::Replacement replacement = {.old = chain.quantize->outputs[0],
                                              .removed = {chain.quantize->id},
                                              .inputs = chain.dequantizes,
                                              .named_like = id};
  if (chain.activation != nullptr) {
    replacement.removed.push_back(chain.activation->id);
  }
  replacement.removed.push_back(id);
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
  NODEWISE_RETURN_IF_ERROR(rewriter.Replace(replacement));
  return QuantizationReport::Change{
      name, conv != nullptr ? "QLinearConv" : "QLinearMatMul", plan.agreement};
}

}  // namespace nodewise
