#include <algorithm>

#include "contrib/runner/half_floats.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/pool.h"
#include "nodewise/runner/onednn_kernels.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

// Those whose kernels add up or compare over all channels at a time.
bool Gains(const OpAttrs& op) {
  return op.As<ops::Conv>() != nullptr ||
         op.As<ops::ConvTranspose>() != nullptr ||
         op.As<ops::MaxPool>() != nullptr ||
         op.As<ops::AveragePool>() != nullptr;
}

TensorLayout LayoutOf(const TensorType& type) {
  return HasLayouts(type) ? TensorLayout::kChannelsLast : TensorLayout::kPlain;
}

// Half floats are converted around calls of float32.
TensorType AsWide(TensorType type) {
  if (IsHalfFloat(type.dtype)) type.dtype = kFloat32;
  return type;
}

// The operation by itself, with the channels last in all that is not a
// constant.
OneDnnCall CallOf(const Network& network, const Operation& operation) {
  OneDnnCall call;
  call.op = operation.attrs;
  for (const ValueId id : operation.inputs) {
    OneDnnInput& input = call.inputs.emplace_back();
    if (id == kNoValue) continue;
    const NetworkValue& value = network.value(id);
    input.type = AsWide(value.type);
    if (value.kind != NetworkValue::Kind::kConstant) {
      input.layout = LayoutOf(value.type);
    } else if (!IsHalfFloat(value.type.dtype)) {
      input.constant = value.data;
    }
  }
  call.output = AsWide(network.value(operation.outputs[0]).type);
  call.output_layout = LayoutOf(call.output);
  return call;
}

bool HasOneOutput(const Operation& operation) {
  const auto& outputs = operation.outputs;
  return outputs[0] != kNoValue &&
         std::all_of(outputs.begin() + 1, outputs.end(),
                     [](ValueId id) { return id == kNoValue; });
}

}  // namespace

LayoutPreference OneDnnLayoutOf(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  if (!HasOneOutput(operation)) return LayoutPreference::kPlain;
  const OneDnnCall call = CallOf(network, operation);
  const bool is_any = std::any_of(
      call.inputs.begin(), call.inputs.end(), [](const OneDnnInput& input) {
        return input.layout == TensorLayout::kChannelsLast;
      });
  if (!is_any && call.output_layout == TensorLayout::kPlain) {
    return LayoutPreference::kAny;
  }
  const Support support = OneDnnSupports(call);
  if (!support.can || !support.penalties.empty()) {
    return LayoutPreference::kPlain;
  }
  return Gains(call.op) ? LayoutPreference::kChannelsLast
                        : LayoutPreference::kAny;
}

}  // namespace nodewise
