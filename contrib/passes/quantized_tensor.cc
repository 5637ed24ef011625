// What is known of one quantised tensor, regardless of what reads or makes it:
// how its scale and zero point lie along it, what range its integers have, and
// whether two tensors stand for floats alike.

#include "contrib/passes/quantized_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "contrib/passes/network_rewriter.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// One number: of rank 0, or the only one of rank 1.
bool IsOne(const std::vector<int64_t>& sizes) {
  return sizes.size() <= 1 && Product(sizes) == 1;
}

absl::StatusOr<std::vector<int64_t>> SizesOf(const Network& network, ValueId id,
                                             std::string_view name) {
  auto sizes = network.value(id).type.sizes();
  if (sizes.has_value()) return *std::move(sizes);
  return Refuse("{} is of type {}, expected a known shape", name,
                ToString(network.value(id).type));
}

// Returns the axis that the scales are by; none if there is one for all.
// A scale with one number is for all elements, even where the operator names
// an axis.
absl::StatusOr<std::optional<int>> AxisOf(const Network& network,
                                          const QuantizedTensor& tensor) {
  const std::string name = fmt::format("{}_scale", tensor.role);
  NODEWISE_ASSIGN_OR_RETURN(const auto sizes,
                            SizesOf(network, tensor.scale, name));
  if (IsOne(sizes)) return std::nullopt;
  if (sizes.size() != 1) {
    return Refuse("{} is by block, of rank {}, expected rank 0 or 1", name,
                  sizes.size());
  }
  const TensorType& data = network.value(tensor.data).type;
  if (!data.has_rank()) {
    return Refuse("{} is by axis, and the rank of {} is not known", name,
                  tensor.role);
  }
  const int64_t axis = data.rank() == 1 ? 0 : tensor.axis;
  NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, data.rank()));
  return std::optional<int>(at);
}

// DequantizeLinear wants a zero point of the scale's shape; where both are one
// number, their ranks may differ.
absl::Status CheckZero(const Network& network, const QuantizedTensor& tensor) {
  if (tensor.zero == kNoValue) return absl::OkStatus();
  const std::string name = fmt::format("{}_zero_point", tensor.role);
  NODEWISE_ASSIGN_OR_RETURN(const auto zero,
                            SizesOf(network, tensor.zero, name));
  NODEWISE_ASSIGN_OR_RETURN(const auto scale,
                            SizesOf(network, tensor.scale, "the scale"));
  if (zero == scale || (IsOne(zero) && IsOne(scale))) return absl::OkStatus();
  return Refuse("{} is of shape {}, expected {} as the scale is", name,
                ShapeToString(zero), ShapeToString(scale));
}

absl::Status CheckIsFloat32(const Network& network,
                            const QuantizedTensor& tensor) {
  const DLDataType type = TypeOf(network, tensor.scale);
  if (type == kFloat32) return absl::OkStatus();
  return Refuse("{}_scale is of type {}, expected float32", tensor.role,
                ToString(TensorType(type)));
}

absl::Status CheckScalesWithin(const Network& network,
                               const QuantizedTensor& tensor, double least,
                               double most, const char* expected) {
  const auto scales = NumbersOf(network, tensor.scale);
  if (!scales.has_value()) return absl::OkStatus();
  for (const double scale : *scales) {
    if (scale >= least && scale <= most) continue;
    return Refuse("{}_scale has {}, expected {}", tensor.role, scale, expected);
  }
  return absl::OkStatus();
}

// Bit by bit: scales that differ in the last bit are different scales.
bool HasSameElements(const NDArray& a, const NDArray& b) {
  const auto sizes_of = [](const NDArray& array) {
    return std::vector<int64_t>(array.shape().begin(), array.shape().end());
  };
  const bool are_one = IsOne(sizes_of(a)) && IsOne(sizes_of(b));
  return a.dtype() == b.dtype() && (are_one || a.shape() == b.shape()) &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace

ValueId InputOf(const Operation& operation, size_t i) {
  return i < operation.inputs.size() ? operation.inputs[i] : kNoValue;
}

QuantizedTensor DequantizedBy(const Operation& operation,
                              std::string_view role) {
  const auto& op = *operation.attrs.As<ops::DequantizeLinear>();
  return {
      role,    operation.inputs[0], operation.inputs[1], InputOf(operation, 2),
      op.axis, op.block_size};
}

QuantizedTensor QuantizedBy(const Operation& operation, std::string_view role) {
  const auto& op = *operation.attrs.As<ops::QuantizeLinear>();
  return {
      role,    operation.outputs[0], operation.inputs[1], InputOf(operation, 2),
      op.axis, op.block_size};
}

absl::StatusOr<ScaleFacts> FactsOf(const Network& network,
                                   const QuantizedTensor& tensor) {
  ScaleFacts facts;
  facts.type = TypeOf(network, tensor.data);
  if (!(facts.type == kInt8) && !(facts.type == kUint8)) {
    return Refuse("{} is of type {}, expected int8 or uint8", tensor.role,
                  ToString(network.value(tensor.data).type));
  }
  NODEWISE_RETURN_IF_ERROR(CheckIsFloat32(network, tensor));
  NODEWISE_ASSIGN_OR_RETURN(facts.axis, AxisOf(network, tensor));
  NODEWISE_RETURN_IF_ERROR(CheckZero(network, tensor));
  // Products of two such scales and of their sums are normal numbers.
  NODEWISE_RETURN_IF_ERROR(CheckScalesWithin(network, tensor, 0x1p-60, 0x1p60,
                                             "numbers from 2^-60 to 2^60"));
  facts.scales =
      NumbersOf(network, tensor.scale).value_or(std::vector<double>());
  facts.zeros = ZerosOf(network, tensor);
  return facts;
}

absl::Status CheckScales(const Network& network,
                         const QuantizedTensor& tensor) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  return CheckScalesWithin(network, tensor, kLeast,
                           std::numeric_limits<double>::max(),
                           "finite numbers above 0");
}

std::vector<double> ZerosOf(const Network& network,
                            const QuantizedTensor& tensor) {
  if (tensor.zero == kNoValue) return {0};
  return NumbersOf(network, tensor.zero).value_or(std::vector<double>());
}

const Operation* DequantizeOf(const Network& network, ValueId id) {
  const Operation* const maker = network.MakerOf(id);
  return maker != nullptr && Is<ops::DequantizeLinear>(*maker) ? maker
                                                               : nullptr;
}

DLDataType TypeOf(const Network& network, ValueId id) {
  return network.value(id).type.dtype;
}

const NDArray* ConstantOf(const Network& network, ValueId id) {
  if (id == kNoValue) return nullptr;
  const NetworkValue& value = network.value(id);
  return value.kind == NetworkValue::Kind::kConstant ? &value.data : nullptr;
}

std::optional<std::vector<double>> NumbersOf(const Network& network,
                                             ValueId id) {
  const NDArray* const constant = ConstantOf(network, id);
  if (constant == nullptr) return std::nullopt;
  return ToDoubles(*constant);
}

bool HoldSameNumbers(const Network& network, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a != kNoValue && b != kNoValue) {
    const NDArray* const x = ConstantOf(network, a);
    const NDArray* const y = ConstantOf(network, b);
    return x != nullptr && y != nullptr && HasSameElements(*x, *y);
  }
  const auto numbers = NumbersOf(network, a == kNoValue ? b : a);
  return numbers.has_value() &&
         std::ranges::all_of(*numbers, [](double x) { return x == 0; });
}

// Axes count only where there is more than one scale, and are compared from
// the front if the rank is known.
bool AreScaledAlike(const Network& network, const QuantizedTensor& a,
                    const QuantizedTensor& b) {
  if (!HoldSameNumbers(network, a.scale, b.scale) ||
      !HoldSameNumbers(network, a.zero, b.zero)) {
    return false;
  }
  const TensorType& scale = network.value(a.scale).type;
  if (scale.has_rank() && scale.rank() <= 1) {
    const auto sizes = scale.sizes();
    if (sizes.has_value() && IsOne(*sizes)) return true;
  } else if (a.block_size != b.block_size) {
    return false;
  }
  const TensorType& data = network.value(a.data).type;
  if (!data.has_rank() || data.rank() == 1) {
    return a.axis == b.axis || data.has_rank();
  }
  const auto from_front = [&](int64_t axis) {
    return axis < 0 ? axis + data.rank() : axis;
  };
  return from_front(a.axis) == from_front(b.axis);
}

std::optional<IntegerRange> RangeOfType(DLDataType dtype) {
  std::optional<IntegerRange> range;
  if (!IsInteger(dtype) || dtype.bits > 16) return range;
  VisitOneOf(IntegerElements(), dtype, [&](auto element) {
    using Limits = std::numeric_limits<typename decltype(element)::Stored>;
    range = IntegerRange{static_cast<double>(Limits::min()),
                         static_cast<double>(Limits::max())};
  });
  return range;
}

double LargestDistance(const IntegerRange& range,
                       const std::vector<double>& zeros) {
  double largest = 0;
  for (const double zero : zeros) {
    largest = std::max({largest, range.high - zero, zero - range.low});
  }
  return zeros.empty() ? range.high - range.low : largest;
}

// frexp() gives 0.5 for these alone.
bool IsPowerOfTwo(double x) {
  int exponent = 0;
  return x > 0 && std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
}

}  // namespace nodewise
