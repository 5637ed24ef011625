// Splits operations on integers into DequantizeLinear, one on floats, and
// QuantizeLinear. New operations stand in front of the old one, which goes
// only after all of them are there; if one is refused, the caller takes the
// others back.

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
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The opsets in which QuantizeLinear and DequantizeLinear got scales by axis,
// scales by block, and results of another type than the scale's.
constexpr int kAxesSince = 13;
constexpr int kBlocksSince = 21;  // And 16-bit types, and the type by name.
constexpr int kResultTypeSince = 23;

// The network's opset decides what the operators of the pair can say, and
// raising it might change what other operations mean.
absl::Status RequireOpset(const Network& network, int opset, const char* what) {
  if (network.opset() >= opset) return absl::OkStatus();
  return Refuse("{} need opset {}, and the network has {}", what, opset,
                network.opset());
}

// Adds a constant with the one element of another as often as `shape` needs it.
absl::StatusOr<ValueId> Repeated(ValueId one, const TensorType& like,
                                 NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const auto numbers = NumbersOf(network, one);
  const NetworkValue& value = network.value(one);
  if (!numbers.has_value()) {
    return Refuse(
        "{} is one number, no constant, and would be needed for each channel",
        value.name);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray all, NDArray::Empty(*like.sizes(), value.type.dtype, kCpu));
  const auto count = static_cast<size_t>(CountOf(all));
  const std::vector<double> repeated(count, (*numbers)[0]);
  StoreDoubles(repeated.data(), 0, CountOf(all), all);
  return rewriter.AddConstant(value.name + "_by_channel", all);
}

// Gives a scale and its zero point one shape, as DequantizeLinear demands.
absl::Status FitShapes(QuantizedTensor* tensor, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const TensorType scale = network.value(tensor->scale).type;
  const TensorType zero = network.value(tensor->zero).type;
  if (!scale.is_static() || !zero.is_static()) return absl::OkStatus();
  const int64_t scales = Product(*scale.sizes());
  const int64_t zeros = Product(*zero.sizes());
  if (scales != 1 && zeros == 1) {
    NODEWISE_ASSIGN_OR_RETURN(tensor->zero,
                              Repeated(tensor->zero, scale, rewriter));
  } else if (scales == 1 && zeros != 1) {
    NODEWISE_ASSIGN_OR_RETURN(tensor->scale,
                              Repeated(tensor->scale, zero, rewriter));
  }
  return absl::OkStatus();
}

// Reads the product that the operation computes.
// Scales of a Conv's weights are by axis 0, those of a matrix by its columns.
absl::StatusOr<QuantizedProduct> ProductOf(const Operation& operation,
                                           NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  QuantizedProduct product;
  product.is_conv = Is<ops::QLinearConv>(operation);
  const ProductRoles roles = RolesOf(product.is_conv);
  const std::vector<ValueId>& in = operation.inputs;
  product.x = {roles.x, in[0], in[1], in[2], 0, 0};
  product.w = {roles.w, in[3], in[4], in[5], product.is_conv ? 0 : 1, 0};
  product.y = {roles.y, operation.outputs[0], in[6], in[7], 1, 0};
  NODEWISE_RETURN_IF_ERROR(FitShapes(&product.x, rewriter));
  NODEWISE_RETURN_IF_ERROR(FitShapes(&product.w, rewriter));
  NODEWISE_RETURN_IF_ERROR(FindFacts(network, &product));
  if (product.x_facts.axis.has_value() || product.w_facts.axis.has_value()) {
    NODEWISE_RETURN_IF_ERROR(
        RequireOpset(network, kAxesSince, "scales by axis"));
  }
  return product;
}

// The bias of a QLinearConv; a QLinearMatMul has no input of this number.
constexpr size_t kBias = 8;

// A split is done regardless of how near the results are, so an error only
// means that nothing is known.
Agreement KnownAgreement(const Network& network, ValueId bias,
                         QuantizedProduct product) {
  if (bias != kNoValue) {
    const auto numbers = NumbersOf(network, bias);
    if (!numbers.has_value()) return Agreement::kNotKnown;
    product.bias = *numbers;
  }
  return AgreementOf(network, product).value_or(Agreement::kNotKnown);
}

// Adds x_scale * w_scale, as a constant if both are.
absl::StatusOr<ValueId> AddBiasScale(const QuantizedProduct& product,
                                     OperationId before,
                                     const std::string& name,
                                     NetworkRewriter& rewriter) {
  const std::vector<double>& x = product.x_facts.scales;
  std::vector<double> scales = product.w_facts.scales;
  if (x.empty() || scales.empty()) {
    return rewriter.Add(ops::Mul{}, {product.x.scale, product.w.scale}, before,
                        name);
  }
  for (double& scale : scales) scale *= x[0];
  const TensorType& like = rewriter.network().value(product.w.scale).type;
  NODEWISE_ASSIGN_OR_RETURN(const NDArray data,
                            FromDoubles(scales, *like.sizes(), kFloat32));
  return rewriter.AddConstant(name, data);
}

absl::StatusOr<ValueId> AddDequantize(const QuantizedTensor& tensor,
                                      const ScaleFacts& facts,
                                      OperationId before,
                                      const std::string& name,
                                      NetworkRewriter& rewriter) {
  ops::DequantizeLinear op;
  if (facts.axis.has_value()) op.axis = *facts.axis;
  return rewriter.Add(op, {tensor.data, tensor.scale, tensor.zero}, before,
                      fmt::format("{}_dequantize_{}", name, tensor.role));
}

// A bias is an int32 in steps of x_scale * w_scale, one scale for each channel
// if w has several.
absl::StatusOr<ValueId> AddBias(const QuantizedProduct& product, ValueId bias,
                                OperationId before, const std::string& name,
                                NetworkRewriter& rewriter) {
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId scale,
      AddBiasScale(product, before, name + "_bias_scale", rewriter));
  ops::DequantizeLinear op;
  op.axis = 0;
  // Where there are no axes yet, the scale is one number.
  if (!product.w_facts.axis.has_value()) op = {};
  return rewriter.Add(op, {bias, scale}, before, name + "_dequantize_bias");
}

absl::StatusOr<ValueId> AddFloatProduct(OperationId id,
                                        const QuantizedProduct& product,
                                        NetworkRewriter& rewriter) {
  const Operation operation = rewriter.network().operation(id);
  const std::string& name = operation.name;
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId x,
      AddDequantize(product.x, product.x_facts, id, name, rewriter));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId w,
      AddDequantize(product.w, product.w_facts, id, name, rewriter));
  if (!product.is_conv) {
    return rewriter.Add(ops::MatMul{}, {x, w}, id, name + "_float");
  }
  std::vector<ValueId> inputs = {x, w};
  if (InputOf(operation, kBias) != kNoValue) {
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId bias,
        AddBias(product, InputOf(operation, kBias), id, name, rewriter));
    inputs.push_back(bias);
  }
  const auto& op = *operation.attrs.As<ops::QLinearConv>();
  return rewriter.Add(ops::Conv{op}, std::move(inputs), id, name + "_float");
}

// Fails if the opset has not what the two operators would need to have.
absl::Status CheckFakeQuantize(const Network& network,
                               const Operation& operation) {
  const auto& op = *operation.attrs.As<ops::FakeQuantize>();
  const ValueId zero = InputOf(operation, 2);
  const TensorType& x = network.value(operation.inputs[0]).type;
  const TensorType& scale = network.value(operation.inputs[1]).type;
  const auto sizes = scale.sizes();
  const bool is_one =
      sizes.has_value() && sizes->size() <= 1 && Product(*sizes) == 1;
  if (!is_one) {
    NODEWISE_RETURN_IF_ERROR(
        RequireOpset(network, kAxesSince, "scales by axis"));
  }
  if (!is_one && op.block_size > 0) {
    NODEWISE_RETURN_IF_ERROR(
        RequireOpset(network, kBlocksSince, "scales by block"));
  }
  const DLDataType zero_type =
      zero == kNoValue ? kUint8 : TypeOf(network, zero);
  if (op.output_dtype.has_value() ||
      (!(zero_type == kUint8) && !(zero_type == kInt8))) {
    NODEWISE_RETURN_IF_ERROR(
        RequireOpset(network, kBlocksSince, "types of 16 bits, or by name,"));
  }
  if (!x.has_dtype() || !scale.has_dtype()) {
    return Refuse("the type of x or of its scale is not known");
  }
  if (x.dtype == scale.dtype) return absl::OkStatus();
  return RequireOpset(network, kResultTypeSince,
                      "results of another type than the scale's");
}

}  // namespace

bool IsMergedProduct(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  return Is<ops::QLinearConv>(operation) || Is<ops::QLinearMatMul>(operation);
}

bool IsFakeQuantize(const Network& network, OperationId id) {
  return Is<ops::FakeQuantize>(network.operation(id));
}

RewriteResult SplitProduct(OperationId id, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation operation = network.operation(id);
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, operation));
  NODEWISE_ASSIGN_OR_RETURN(const QuantizedProduct product,
                            ProductOf(operation, rewriter));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId floats,
                            AddFloatProduct(id, product, rewriter));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId made,
      rewriter.Add(ops::QuantizeLinear{},
                   {floats, product.y.scale, product.y.zero}, id,
                   operation.name + "_quantize"));
  const Agreement agreement =
      KnownAgreement(network, InputOf(operation, kBias), product);
  NODEWISE_RETURN_IF_ERROR(
      rewriter.Replace({.old = operation.outputs[0],
                        .made = made,
                        .removed = {id},
                        .named = network.value(floats).producer,
                        .named_like = id}));
  return QuantizationReport::Change{
      operation.name, product.is_conv ? "Conv" : "MatMul", agreement};
}

RewriteResult SplitFakeQuantize(OperationId id, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation operation = network.operation(id);
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, operation));
  NODEWISE_RETURN_IF_ERROR(CheckFakeQuantize(network, operation));
  const auto& op = *operation.attrs.As<ops::FakeQuantize>();
  const QuantizedTensor tensor{.role = "x", .scale = operation.inputs[1]};
  NODEWISE_RETURN_IF_ERROR(CheckScales(network, tensor));
  const DLDataType type = TypeOf(network, operation.inputs[0]);
  ops::QuantizeLinear quantize;
  quantize.axis = op.axis;
  quantize.block_size = op.block_size;
  quantize.output_dtype = op.output_dtype;
  ops::DequantizeLinear dequantize{op.axis, op.block_size, std::nullopt};
  if (!(TypeOf(network, tensor.scale) == type)) {
    dequantize.output_dtype = type;
  }
  std::vector<ValueId> inputs = operation.inputs;
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId integers,
      rewriter.Add(quantize, inputs, id, operation.name + "_quantize"));
  inputs[0] = integers;
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            rewriter.Add(dequantize, std::move(inputs), id,
                                         operation.name + "_dequantize"));
  NODEWISE_RETURN_IF_ERROR(
      rewriter.Replace({.old = operation.outputs[0],
                        .made = made,
                        .removed = {id},
                        .named = network.value(integers).producer,
                        .named_like = id}));
  return QuantizationReport::Change{operation.name, "QuantizeLinear",
                                    Agreement::kExact};
}

}  // namespace nodewise
