// Which layout of its tensors each operation is lowered with, so that oneDNN
// computes it fast.

#include <algorithm>

#include "contrib/regions/half_floats.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/pool.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

// Operators gain by channels that lie last if their kernels add up or compare
// over all channels at a time. Elementwise operations gain nothing by an order
// of their own, but take any.
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

}  // namespace

LayoutPreference OneDnnLayoutOf(const Network& network, OperationId id) {
  const Operation& operation = network.operation(id);
  // oneDNN makes first outputs alone, so such an operation is left to its
  // definition, which knows no layouts.
  const auto& outputs = operation.outputs;
  const bool has_one =
      outputs[0] != kNoValue &&
      std::ranges::count(outputs, kNoValue) + 1 == std::ssize(outputs);
  if (!has_one) return LayoutPreference::kPlain;
  const OneDnnCall call = CallOf(network, operation);
  const bool is_any =
      std::ranges::any_of(call.inputs, [](const OneDnnInput& input) {
        return input.layout == TensorLayout::kChannelsLast;
      });
  if (!is_any && call.output_layout == TensorLayout::kPlain) {
    return LayoutPreference::kAny;
  }
  const Support support = OneDnnSupports(call);
  // A kernel that is slow in this order would cost more than the Transposes
  // that it saves.
  if (!support.can || !support.penalties.empty()) {
    return LayoutPreference::kPlain;
  }
  return Gains(call.op) ? LayoutPreference::kChannelsLast
                        : LayoutPreference::kAny;
}

}  // namespace nodewise
