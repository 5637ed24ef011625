#include "contrib/lab/planter/trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "contrib/lab/planter/sides.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Tensors as the node's function gets them: flat if the node says so.
absl::StatusOr<std::vector<NDArray>> AsCalled(const std::vector<NDArray>& list,
                                              bool flatten) {
  if (!flatten) return list;
  std::vector<NDArray> flat;
  for (const NDArray& tensor : list) {
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray view,
        tensor.View(std::vector<int64_t>{CountOf(tensor)}, tensor.dtype()));
    flat.push_back(std::move(view));
  }
  return flat;
}

absl::StatusOr<std::vector<NDArray>> EmptyLike(
    const std::vector<NDArray>& list) {
  std::vector<NDArray> made;
  for (const NDArray& like : list) {
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray empty, NDArray::Empty(like.shape(), like.dtype(), {kDLCPU, 0}));
    if (empty.bytes() > 0) std::memset(empty.data(), 0, empty.bytes());
    made.push_back(std::move(empty));
  }
  return made;
}

double EffectOn(const NDArray& sound, const NDArray& faulty) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const DLDataType dtype = sound.dtype();
  if (!IsFloat(dtype) && !IsInteger(dtype) && !IsBool(dtype)) return kInfinite;
  const std::vector<double> was = ToDoubles(sound), is = ToDoubles(faulty);
  double largest = 0;
  for (size_t i = 0; i < was.size(); ++i) {
    const bool are_same =
        was[i] == is[i] || (std::isnan(was[i]) && std::isnan(is[i]));
    if (are_same) continue;
    const double difference = std::fabs(was[i] - is[i]);
    if (!std::isfinite(difference)) return kInfinite;
    largest = std::max(largest, difference);
  }
  const double scale = LargestOf(sound);
  return largest == 0 || scale > 0 ? largest / std::max(scale, 1e-300)
                                   : kInfinite;
}

}  // namespace

absl::StatusOr<std::optional<double>> TryFault(const FaultPlace& place,
                                               const Spoiling& spoiling,
                                               Library& sound) {
  const GraphNode& node = place.graph.node(place.node);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                            EmptyLike(place.sound.outputs));
  NodeCall call;
  NODEWISE_ASSIGN_OR_RETURN(call.inputs,
                            AsCalled(place.sound.inputs, node.flatten));
  NODEWISE_ASSIGN_OR_RETURN(call.outputs, AsCalled(made, node.flatten));
  std::vector<const DLTensor*> arguments;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const NDArray& tensor : *list) arguments.push_back(tensor.tensor());
  }
  const auto& bind =
      spoiling.bind_for_trial ? spoiling.bind_for_trial : spoiling.bind;
  NODEWISE_ASSIGN_OR_RETURN(
      const PackedFunc faulty,
      bind(sound, {node.function, node.attrs, arguments, made.size()}));
  NODEWISE_RETURN_IF_ERROR(CallNode(faulty, call));
  std::optional<double> effect;
  for (size_t i = 0; i < made.size(); ++i) {
    const NDArray& right = place.sound.outputs[i];
    if (std::memcmp(right.data(), made[i].data(), right.bytes()) == 0) continue;
    effect = std::max(effect.value_or(0), EffectOn(right, made[i]));
  }
  return effect;
}

}  // namespace nodewise
