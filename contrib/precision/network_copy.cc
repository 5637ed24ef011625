#include "contrib/precision/network_copy.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

NetworkCopy::NetworkCopy(const Network& old) : old_(&old) {
  // Names of values that have not been made yet must not be taken by new ones.
  for (const auto& value : old.data().values) {
    if (value.has_value()) names_.insert(value->name);
  }
  for (const OperationId id : old.order()) {
    names_.insert(old.operation(id).name);
  }
  outputs_.insert(old.outputs().begin(), old.outputs().end());
}

absl::StatusOr<NetworkCopy> NetworkCopy::Begin(const Network& old, int opset) {
  NetworkCopy copy(old);
  NetworkData empty;
  empty.name = old.name();
  empty.opsets = old.data().opsets;
  NODEWISE_ASSIGN_OR_RETURN(copy.made_, Network::FromData(std::move(empty)));
  if (opset != 0) {
    NODEWISE_RETURN_IF_ERROR(copy.made_.SetOpset("", opset));
  }
  // From now on each operation is checked against the target when it is added.
  NODEWISE_RETURN_IF_ERROR(copy.made_.SetTarget(old.target()));
  for (const ValueId id : old.inputs()) {
    const NetworkValue& input = old.value(id);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                              copy.made_.AddInput(input.name, input.type));
    copy.Set(id, made);
  }
  return copy;
}

absl::StatusOr<ValueId> NetworkCopy::Of(ValueId old) {
  if (old == kNoValue) return kNoValue;
  const auto found = stands_for_.find(old);
  if (found != stands_for_.end()) return found->second;
  const NetworkValue& value = old_->value(old);
  // Operations are copied in their order, so all else has been set by now.
  // Constants are copied when they are first read: those that no one reads any
  // more are left behind.
  NODEWISE_CHECK(value.kind == NetworkValue::Kind::kConstant);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            made_.AddConstant(value.name, value.data));
  Set(old, made);
  return made;
}

absl::StatusOr<std::vector<ValueId>> NetworkCopy::AddAs(
    const Operation& old, OpAttrs attrs, std::vector<ValueId> inputs,
    const std::vector<std::string>& suffixes) {
  NewOperation wanted;
  wanted.attrs = std::move(attrs);
  wanted.inputs = std::move(inputs);
  wanted.name = old.name;
  wanted.origin = old.origin;
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    const ValueId output = old.outputs[i];
    std::string name = output == kNoValue ? "" : NameOf(output);
    if (!name.empty() && !suffixes[i].empty()) {
      name = FreeName(name + suffixes[i]);
    }
    wanted.outputs.push_back(std::move(name));
  }
  for (const ValueId barrier : old.after) {
    NODEWISE_ASSIGN_OR_RETURN(wanted.after.emplace_back(), Of(barrier));
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            made_.AddOperation(std::move(wanted)));
  const Operation& made = made_.operation(id);
  Set(old.barrier, made.barrier);
  return made.outputs;
}

absl::StatusOr<const OperatorDef*> NetworkCopy::RowOf(const void* type) const {
  // The class belongs to one version of the operator; the network may be in an
  // opset that has another.
  const OperatorDef* const newest = AllOperators().FindType(type);
  const int opset = made_.opset(newest->domain);
  const OperatorDef* const held =
      AllOperators().Find(newest->domain, newest->name, opset);
  if (held != nullptr && held->type == type) return held;
  return InvalidArgument("opset {} of the network has no {}", opset,
                         newest->name);
}

absl::StatusOr<ValueId> NetworkCopy::AddNew(OpAttrs attrs,
                                            std::vector<ValueId> inputs,
                                            const std::string& name,
                                            const std::string& output) {
  NewOperation wanted;
  // An operation that only converts a value has the origin of the one that made
  // it.
  if (!inputs.empty() && inputs[0] != kNoValue) {
    const OperationId maker = made_.value(inputs[0]).producer;
    if (maker != kNoOperation) wanted.origin = made_.operation(maker).origin;
  }
  wanted.attrs = std::move(attrs);
  wanted.inputs = std::move(inputs);
  wanted.name = FreeName(name);
  wanted.outputs = {output.empty() ? wanted.name : output};
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            made_.AddOperation(std::move(wanted)));
  return made_.operation(id).outputs[0];
}

absl::StatusOr<ValueId> NetworkCopy::AddConstant(const std::string& name,
                                                 NDArray data) {
  return made_.AddConstant(FreeName(name), std::move(data));
}

std::string NetworkCopy::FreeName(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !names_.insert(name).second; ++i) {
    name = fmt::format("{}_{}", wanted, i);
  }
  return name;
}

absl::StatusOr<Network> NetworkCopy::Finish() {
  std::vector<ValueId> outputs;
  for (const ValueId id : old_->outputs()) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), Of(id));
  }
  NODEWISE_RETURN_IF_ERROR(made_.SetOutputs(std::move(outputs)));
  // Without outputs everything would be unused.
  if (!old_->outputs().empty()) made_.RemoveUnused();
  return std::move(made_);
}

namespace {

// MergeQuantization takes no scales beyond these.
constexpr double kLeastScale = 0x1p-60;
constexpr double kLargestScale = 0x1p60;
// The largest number of a uint8.
constexpr double kMostBytes = 255;
constexpr double kLargestInt32 = 0x1p31 - 1;

absl::Span<const float> FloatsIn(const NDArray& tensor) {
  return {tensor.As<float>(), static_cast<size_t>(CountOf(tensor))};
}

// How the elements of an index along an axis lie.
struct Stride {
  size_t count = 1;  // Indices along the axis.
  size_t inner = 1;  // Elements that lie together.

  size_t IndexOf(size_t element) const { return element / inner % count; }
};

// Without an axis all elements share index 0.
Stride StrideOf(const NDArray& tensor, std::optional<int> axis) {
  const auto shape = tensor.shape();
  if (!axis.has_value()) return {1, std::max<size_t>(1, CountOf(tensor))};
  const auto at = static_cast<size_t>(*axis);
  return {static_cast<size_t>(shape[at]),
          std::max<size_t>(1, Product(shape.subspan(at + 1)))};
}

}  // namespace

absl::StatusOr<ShortFloats> ToShortFloats(const NDArray& floats,
                                          DLDataType type) {
  const double largest = type == kFloat16 ? 65504 : 0x1.FEp127;
  std::vector<double> numbers = ToDoubles(floats);
  ShortFloats result;
  for (double& number : numbers) {
    if (!std::isfinite(number) || std::fabs(number) <= largest) continue;
    number = std::copysign(largest, number);
    ++result.cut_off;
  }
  NODEWISE_ASSIGN_OR_RETURN(result.data,
                            FromDoubles(numbers, floats.shape(), type));
  return result;
}

bool AreAllFinite(const NDArray& floats) {
  const auto numbers = FloatsIn(floats);
  return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
}

absl::StatusOr<SymmetricWeights> QuantizeSymmetric(const NDArray& floats,
                                                   std::optional<int> axis,
                                                   int most) {
  const double most_steps = most;
  const auto numbers = FloatsIn(floats);
  const Stride stride = StrideOf(floats, axis);
  // The largest magnitude of a channel decides its step, so that no weight is
  // cut off.
  std::vector<double> largest(stride.count, 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    double& so_far = largest[stride.IndexOf(i)];
    so_far = std::max(so_far, std::fabs(double{numbers[i]}));
  }
  SymmetricWeights made;
  std::vector<int64_t> scale_shape;
  if (axis.has_value()) scale_shape = {static_cast<int64_t>(stride.count)};
  NODEWISE_ASSIGN_OR_RETURN(made.scales,
                            NDArray::Empty(scale_shape, kFloat32, kCpu));
  NODEWISE_ASSIGN_OR_RETURN(made.integers,
                            NDArray::Empty(floats.shape(), kInt8, kCpu));
  float* const scales = made.scales.As<float>();
  for (size_t c = 0; c < stride.count; ++c) {
    // A channel of zeros has any scale.
    const double step = largest[c] == 0 ? 1 : largest[c] / most_steps;
    scales[c] =
        static_cast<float>(std::clamp(step, kLeastScale, kLargestScale));
  }
  auto* const integers = made.integers.As<int8_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    // By the scale as float32 has it, since that is the one by which it is
    // multiplied again.
    const double steps = numbers[i] / double{scales[stride.IndexOf(i)]};
    integers[i] = static_cast<int8_t>(
        std::clamp(std::nearbyint(steps), -most_steps, most_steps));
  }
  return made;
}

std::optional<ByteScale> ByteScaleOf(const ValueRange& range) {
  // A 0 that is exact keeps padding and what Relu cuts off exact.
  const double low = std::min(range.low, 0.0);
  const double high = std::max(range.high, 0.0);
  ByteScale made;
  // All numbers are 0, for which every scale is right.
  if (low == high) return made;
  const double step = (high - low) / kMostBytes;
  if (!(step <= kLargestScale)) return std::nullopt;
  made.scale = static_cast<float>(std::max(step, kLeastScale));
  made.zero = static_cast<uint8_t>(
      std::clamp(std::nearbyint(-low / double{made.scale}), 0.0, kMostBytes));
  return made;
}

absl::StatusOr<std::optional<StepBias>> QuantizeBias(const NDArray& floats,
                                                     float x_scale,
                                                     const NDArray& w_scales) {
  const auto numbers = FloatsIn(floats);
  const auto scales = FloatsIn(w_scales);
  // A bias of another rank is spread over other sides than the channels.
  const bool fits = floats.shape().size() == 1 &&
                    (scales.size() == 1 || scales.size() == numbers.size());
  if (!fits) return std::nullopt;
  StepBias made;
  NODEWISE_ASSIGN_OR_RETURN(made.integers,
                            NDArray::Empty(floats.shape(), kInt32, kCpu));
  NODEWISE_ASSIGN_OR_RETURN(made.scales,
                            NDArray::Empty(w_scales.shape(), kFloat32, kCpu));
  for (size_t i = 0; i < scales.size(); ++i) {
    // As float32 has the product, which is what the merged operator means.
    made.scales.As<float>()[i] = x_scale * scales[i];
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double step = made.scales.As<float>()[scales.size() == 1 ? 0 : i];
    const double steps = std::nearbyint(numbers[i] / step);
    // Written so that a NaN does not fit.
    if (!(std::fabs(steps) <= kLargestInt32)) return std::nullopt;
    made.integers.As<int32_t>()[i] = static_cast<int32_t>(steps);
  }
  return made;
}

}  // namespace nodewise
