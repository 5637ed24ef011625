#include "contrib/runner/region_layouts.h"

#include "nodewise/ops/layout.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

// The layouts between which a Transpose moves its tensor.
enum class Direction { kToLast, kToFirst, kOther };

Direction DirectionOf(const Operation& operation) {
  const auto* const op = operation.attrs.As<ops::Transpose>();
  if (op == nullptr || op->perm.size() < 3) return Direction::kOther;
  const int rank = static_cast<int>(op->perm.size());
  if (op->perm == SidesToChannelsLast(rank)) return Direction::kToLast;
  return op->perm == SidesToChannelsFirst(rank) ? Direction::kToFirst
                                                : Direction::kOther;
}

}  // namespace

LayoutMap PlainIn(const Region& region) {
  const NetworkData& data = region.network.data();
  LayoutMap map;
  map.layout.assign(data.values.size(), TensorLayout::kPlain);
  for (size_t i = 0; i < data.values.size(); ++i) {
    map.home.push_back(static_cast<ValueId>(i));
  }
  map.is_transpose.resize(data.operations.size());
  return map;
}

std::optional<LayoutMap> ChannelsLastIn(const Region& region) {
  const Network& network = region.network;
  const size_t num_values = network.data().values.size();
  LayoutMap map = PlainIn(region);
  bool is_any = false;
  // Values whose tensor is made in the region, and whose layout may be chosen.
  std::vector<bool> is_free(num_values);
  std::vector<bool> is_weight(num_values);
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    is_free[Index(value->id)] = value->kind == NetworkValue::Kind::kOutput;
    is_weight[Index(value->id)] = value->kind == NetworkValue::Kind::kConstant;
  }
  for (const ValueId id : network.outputs()) is_free[Index(id)] = false;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    is_weight[Index(network.inputs()[i])] = region.is_constant[i];
  }
  const auto join = [&](ValueId first, ValueId last, OperationId transpose) {
    map.layout[Index(first)] = TensorLayout::kChannelsLast;
    map.home[Index(first)] = last;
    map.is_transpose[Index(transpose)] = is_any = true;
    is_free[Index(first)] = is_free[Index(last)] = false;
  };
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const Direction direction = DirectionOf(operation);
    if (direction == Direction::kOther) continue;
    const ValueId from = operation.inputs[0];
    const ValueId to = operation.outputs[0];
    const bool is_input =
        network.value(from).kind == NetworkValue::Kind::kInput;
    if (direction == Direction::kToFirst && is_input && is_free[Index(to)] &&
        !is_weight[Index(from)]) {
      join(to, from, id);
    } else if (direction == Direction::kToLast && is_free[Index(from)]) {
      join(from, to, id);
    }
  }
  if (!is_any) return std::nullopt;
  for (const auto& value : network.data().values) {
    if (!value.has_value() || !is_free[Index(value->id)]) continue;
    if (!HasLayouts(value->type)) continue;
    map.layout[Index(value->id)] = TensorLayout::kChannelsLast;
  }
  return map;
}

}  // namespace nodewise
