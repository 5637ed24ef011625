#include "tests/measure/effect.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/locate.h"
#include "nodewise/lower/region.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#include "tests/measure/node_tensors.h"

namespace nodewise {
namespace {

// Half of an effect on an element with this bound. What must be exact has no
// half that is allowed, and an integer that is off by one and a half is off by
// two.
double HalfOf(double effect, double proved, bool is_float) {
  if (proved == 0) return effect;
  if (is_float) return effect / 2;
  return std::copysign(std::ceil(std::fabs(effect) / 2), effect);
}

// The reference's tensor with half of the effect on it.
absl::StatusOr<NDArray> WithHalf(const BoundedTensor& reference,
                                 const NDArray& sound, const NDArray& faulty) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray half, reference.tensor.CopyToHost());
  std::vector<double> values = ToDoubles(half);
  const std::vector<double> was = ToDoubles(sound), is = ToDoubles(faulty);
  const bool is_float = IsFloat(half.dtype());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool both_nan = std::isnan(was[i]) && std::isnan(is[i]);
    if (was[i] == is[i] || both_nan) continue;
    const double effect = is[i] - was[i];
    if (!std::isfinite(effect)) {
      values[i] = is[i];
      continue;
    }
    const auto& proved = reference.bounds.proved;
    const double bound = i < proved.size() ? proved[i] : NAN;
    values[i] += HalfOf(effect, bound, is_float);
  }
  StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()), half);
  return half;
}

absl::StatusOr<NodeCheck> CheckHalves(const Subject& subject, NodeId id,
                                      const NodeTensors& sound,
                                      const NodeTensors& faulty) {
  const GraphNode& node = subject.graph.node(id);
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfNode(subject.graph, id, sound));
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<BoundedTensor> reference,
      InterpretCarryingBounds(region.network, sound.inputs));
  NodeCheck check{id, node.name};
  for (uint32_t slot = 0; slot < reference.size(); ++slot) {
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray half,
        WithHalf(reference[slot], sound.outputs[slot], faulty.outputs[slot]));
    const TensorKey key{node.name, slot, TensorRole::kOutput, "reference"};
    TensorItem item{key};
    item.tensor = reference[slot].tensor.tensor();
    item.proved_bounds = reference[slot].bounds.proved;
    item.expected_bounds = reference[slot].bounds.expected;
    NODEWISE_ASSIGN_OR_RETURN(TensorComparison compared,
                              CompareTensors(item, *half));
    check.outputs.push_back(std::move(compared));
  }
  return check;
}

}  // namespace

std::string_view NameOf(EffectSize size) {
  constexpr std::string_view kNames[] = {"large", "unbounded", "small"};
  return kNames[static_cast<size_t>(size)];
}

absl::StatusOr<EffectSize> MeasureEffect(
    const Subject& subject, const PlantedGraph& planted,
    const std::vector<NamedTensor>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(
      const SubjectTarget right,
      TargetOf(subject.name, subject.graph, subject.library, subject.params));
  NODEWISE_ASSIGN_OR_RETURN(
      const SubjectTarget wrong,
      TargetOf(subject.name, planted.graph, planted.library, subject.params));
  const NodeId node = planted.fault.node;
  NODEWISE_ASSIGN_OR_RETURN(const NodeTensors sound,
                            TensorsOf(right, node, inputs));
  NODEWISE_ASSIGN_OR_RETURN(const NodeTensors faulty,
                            TensorsOf(wrong, node, inputs));
  NODEWISE_ASSIGN_OR_RETURN(const NodeCheck check,
                            CheckHalves(subject, node, sound, faulty));
  switch (IsolatedVerdict(check.outputs)) {
    case Verdict::kError:
      return EffectSize::kLarge;
    case Verdict::kInconclusive:
      return EffectSize::kUnbounded;
    default:
      return EffectSize::kSmall;
  }
}

}  // namespace nodewise
