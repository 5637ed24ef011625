#include "contrib/passes/merge_pair.h"

#include <algorithm>
#include <cmath>

#include "contrib/passes/quantized_tensor.h"
#include "contrib/passes/refusal.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

DLDataType TypeOfValue(const Network& network, ValueId id) {
  return network.value(id).type.dtype;
}

std::string NameOfType(const Network& network, ValueId id) {
  return ToString(TensorType(TypeOfValue(network, id)));
}

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
    return Refuse(fmt::format(
        "its scale or zero point, or how it applies to the data, is not that "
        "of {}",
        dequantize.name));
  }
  NODEWISE_RETURN_IF_ERROR(CheckScales(network, y));
  const auto& op = *quantize.attrs.As<ops::QuantizeLinear>();
  const DLDataType scale = TypeOfValue(network, y.scale);
  if (!op.precision.has_value() || *op.precision == scale) {
    return absl::OkStatus();
  }
  return Refuse(fmt::format("it divides in {}, expected {} as its scale is",
                            ToString(*op.precision),
                            NameOfType(network, y.scale)));
}

// Fails unless quantising what was dequantised gives every integer back:
// unless each of both roundings to the float type is off by less than a quarter
// of a step.
absl::Status CheckComesBack(const Network& network,
                            const QuantizedTensor& from) {
  const auto range = RangeOfType(TypeOfValue(network, from.data));
  const auto scales = NumbersOf(network, from.scale);
  if (!range.has_value()) {
    return Refuse(
        fmt::format("the integers are of type {}, expected one of 8 "
                    "or 16 bits",
                    NameOfType(network, from.data)));
  }
  if (!scales.has_value()) {
    return Refuse("its scale is not a constant, so it may be 0");
  }
  std::vector<double> zeros = {0};
  if (from.zero != kNoValue) {
    zeros = NumbersOf(network, from.zero).value_or(std::vector<double>());
  }
  const double largest = LargestDistance(*range, zeros);
  const DLDataType dtype = TypeOfValue(network, from.scale);
  const double roundoff = UnitRoundoff(dtype);
  for (const double scale : *scales) {
    const bool is_exact = IsPowerOfTwo(scale) && largest * roundoff <= 1;
    const bool is_near = is_exact || largest * roundoff * 2.1 < 0.5;
    if (is_near && std::isfinite(RoundedTo(dtype, largest * scale))) continue;
    return Refuse(
        fmt::format("{} does not hold all integers times {} exactly "
                    "enough to give them back",
                    ToString(dtype), scale));
  }
  return absl::OkStatus();
}

const Operation* MakerOf(const Network& network, ValueId id) {
  const OperationId maker = network.value(id).producer;
  return maker == kNoOperation ? nullptr : &network.operation(maker);
}

absl::Status CheckPair(const Network& network, const Operation& quantize,
                       const Operation& dequantize) {
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, quantize));
  if (!dequantize.after.empty()) {
    return Refuse(
        fmt::format("operation {} waits for others", dequantize.name));
  }
  const ValueId result = quantize.outputs[0];
  if (IsOutput(network, result)) {
    return Refuse("its result is an output of the network");
  }
  return CheckAlike(network, quantize, dequantize);
}

absl::Status CheckRemovable(const Network& network, const Operation& quantize,
                            const Operation& dequantize) {
  NODEWISE_RETURN_IF_ERROR(CheckPair(network, quantize, dequantize));
  const QuantizedTensor from = DequantizedBy(dequantize, "x");
  const ValueId floats = dequantize.outputs[0];
  const ValueId result = quantize.outputs[0];
  if (!(TypeOfValue(network, from.data) == TypeOfValue(network, result))) {
    return Refuse(fmt::format("its result is {}, and {} reads {}",
                              NameOfType(network, result), dequantize.name,
                              NameOfType(network, from.data)));
  }
  if (!(TypeOfValue(network, floats) == TypeOfValue(network, from.scale))) {
    return Refuse(fmt::format("its input is {}, expected {} as its scale is",
                              NameOfType(network, floats),
                              NameOfType(network, from.scale)));
  }
  return CheckComesBack(network, from);
}

// The operation that does what both do.
absl::StatusOr<ops::FakeQuantize> FakeQuantizeOf(const Network& network,
                                                 const Operation& quantize,
                                                 const Operation& dequantize,
                                                 ValueId zero) {
  const ValueId x = quantize.inputs[0];
  const DLDataType type = TypeOfValue(network, x);
  if (!IsFloat(type) ||
      !(type == TypeOfValue(network, dequantize.outputs[0]))) {
    return Refuse(
        fmt::format("its input is {}, and what {} makes {}, expected "
                    "one float type",
                    NameOfType(network, x), dequantize.name,
                    NameOfType(network, dequantize.outputs[0])));
  }
  const auto& op = *quantize.attrs.As<ops::QuantizeLinear>();
  ops::FakeQuantize fake{op.axis, op.block_size, std::nullopt};
  const DLDataType between = TypeOfValue(network, quantize.outputs[0]);
  if (between.bits != 0 && between.code != kDLInt && between.code != kDLUInt) {
    return Refuse(fmt::format("its result is {}, expected an integer",
                              ToString(between)));
  }
  const DLDataType told =
      zero == kNoValue ? kUint8 : TypeOfValue(network, zero);
  if (between.bits != 0 && !(between == told)) fake.output_dtype = between;
  return fake;
}

}  // namespace

bool QuantizesDequantized(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (operation.attrs.As<ops::QuantizeLinear>() == nullptr) return false;
  const Operation* const maker = MakerOf(network, operation.inputs[0]);
  return maker != nullptr &&
         maker->attrs.As<ops::DequantizeLinear>() != nullptr;
}

bool DequantizesQuantized(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (operation.attrs.As<ops::QuantizeLinear>() == nullptr) return false;
  const auto& uses = network.value(operation.outputs[0]).uses;
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    const OpAttrs& user = network.operation(use.user).attrs;
    return use.slot == 0 && user.As<ops::DequantizeLinear>() != nullptr;
  });
}

absl::StatusOr<QuantizationReport::Change> RemovePair(
    OperationId quantize, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation& operation = network.operation(quantize);
  const Operation& maker = *MakerOf(network, operation.inputs[0]);
  NODEWISE_RETURN_IF_ERROR(CheckRemovable(network, operation, maker));
  const std::string name = operation.name;
  NODEWISE_RETURN_IF_ERROR(rewriter.PassOn(
      maker.inputs[0], operation.outputs[0], {quantize}, {maker.id}));
  return QuantizationReport::Change{name, "", Agreement::kExact};
}

absl::StatusOr<QuantizationReport::Change> MergeFakeQuantize(
    OperationId quantize, NetworkRewriter& rewriter) {
  const Network& network = rewriter.network();
  const Operation& first = network.operation(quantize);
  NODEWISE_ASSIGN_OR_RETURN(const OperationId reader,
                            OnlyReader(network, first.outputs[0]));
  const Operation& second = network.operation(reader);
  NODEWISE_RETURN_IF_ERROR(CheckPair(network, first, second));
  NODEWISE_RETURN_IF_ERROR(CheckNoBarriers(network, second));
  NetworkRewriter::Replacement replacement;
  replacement.old = second.outputs[0];
  const QuantizedTensor y = QuantizedBy(first, "y");
  const QuantizedTensor x = DequantizedBy(second, "x");
  const ValueId zero = y.zero != kNoValue ? y.zero : x.zero;
  NODEWISE_ASSIGN_OR_RETURN(const ops::FakeQuantize fake,
                            FakeQuantizeOf(network, first, second, zero));
  std::vector<ValueId> inputs = {first.inputs[0], y.scale};
  if (zero != kNoValue) inputs.push_back(zero);
  const std::string name = first.name;
  replacement.removed = {reader, quantize};
  replacement.named_like = quantize;
  NODEWISE_RETURN_IF_ERROR(rewriter.EnsureOpset("nodewise"));
  NODEWISE_ASSIGN_OR_RETURN(
      replacement.made, rewriter.Add(fake, std::move(inputs), reader, name));
  replacement.named = network.value(replacement.made).producer;
  NODEWISE_RETURN_IF_ERROR(rewriter.Replace(replacement));
  return QuantizationReport::Change{name, "FakeQuantize", Agreement::kExact};
}

}  // namespace nodewise
