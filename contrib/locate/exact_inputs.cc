#include "nodewise/locate/exact_inputs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "nodewise/interp/exact_tensors.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/lower/region.h"
#include "nodewise/ops/conv.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Runs the candidate with some options. All nodes that are checked share its
// runner.
using RunWith = absl::FunctionRef<absl::StatusOr<RunResult>(const RunOptions&)>;

constexpr CompareOptions kBitForBit = {{Rule::Kind::kTolerance, {0, 0}}};

bool IsAllOnes(const std::vector<int64_t>& numbers) {
  return std::ranges::all_of(numbers, [](int64_t x) { return x == 1; });
}

// Whether the places of a window overlap as Winograd's algorithm needs it.
bool HasSlidingWindow(const ops::ConvAttributes& conv,
                      const NetworkValue& weights) {
  if (!IsAllOnes(conv.strides) || !IsAllOnes(conv.dilations)) return false;
  std::vector<int64_t> window = conv.kernel_shape;
  const auto sizes = weights.type.sizes();
  if (window.empty() && sizes.has_value() && sizes->size() > 2) {
    window.assign(sizes->begin() + 2, sizes->end());
  }
  return window.empty() || !IsAllOnes(window);
}

// Whether there are algorithms for a node that compute with other numbers than
// they are given: Winograd's, and transforms to frequencies. No other
// operator's sums and products are computed like that, so there a difference on
// exact inputs is a fault, however small.
bool MayBeInexact(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const ops::ConvAttributes* conv = operation.attrs.As<ops::Conv>();
    if (conv == nullptr) conv = operation.attrs.As<ops::ConvTranspose>();
    if (conv != nullptr &&
        HasSlidingWindow(*conv, network.value(operation.inputs[1]))) {
      return true;
    }
  }
  return false;
}

// An entry that the node reads twice can only be one tensor.
absl::StatusOr<std::vector<TensorPatch>> PatchesFor(
    const GraphIndex& index, NodeId node, const std::vector<NDArray>& inputs) {
  std::vector<TensorPatch> patches;
  const Graph& graph = index.graph();
  const std::vector<EntryId> read = EntriesReadBy(graph, node);
  if (read.size() != graph.node(node).inputs.size()) {
    return Unimplemented("reads one tensor twice");
  }
  for (size_t i = 0; i < read.size(); ++i) {
    patches.push_back(
        {index.KeyOf(read[i]), inputs[i], "exact inputs", index.KeyOf(node)});
  }
  return patches;
}

// Turns errors that the proved bound allows into a remark.
absl::Status AllowInexact(const Region& region, const ExactTensors& exact,
                          const std::vector<NamedTensor>& made,
                          ExactCheck* check) {
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<BoundedTensor> bounded,
      InterpretCarryingBounds(region.network, exact.inputs));
  for (size_t i = 0; i < made.size(); ++i) {
    if (check->outputs[i].metrics.non_finite() > 0) return absl::OkStatus();
    const Bounds& bounds = bounded[i].bounds;
    const BoundCheck found = CheckBounds(*exact.expected[i], *made[i].tensor,
                                         bounds.proved, bounds.expected, {});
    if (found.outside + found.outside_fallback > 0) return absl::OkStatus();
  }
  // All differences are within the bound: the kernel rounds where it need not.
  check->is_inexact = true;
  for (TensorComparison& output : check->outputs) {
    if (!output.is_wrong()) continue;
    output.judgement = {
        Verdict::kPass,
        "not exact, but within the proved bound, as Winograd's algorithm is",
        ""};
  }
  return absl::OkStatus();
}

// Fails with the reason why the node cannot be checked.
absl::Status TryExactly(const GraphIndex& index, const OpSet& operators,
                        NodeId node, RunWith run, uint64_t seed,
                        ExactCheck* check) {
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfNode(index.graph(), node, operators));
  NODEWISE_ASSIGN_OR_RETURN(const ExactTensors exact,
                            DrawExactTensors(region.network, seed));
  RunOptions options;
  NODEWISE_ASSIGN_OR_RETURN(options.patches,
                            PatchesFor(index, node, exact.inputs));
  // The nodes before it run, too, since runners begin with the first; those
  // behind it need not.
  options.stop = StopRule{index.KeyOf(node), "the node", std::nullopt};
  NODEWISE_ASSIGN_OR_RETURN(const RunResult result, run(options));
  const std::vector<NamedTensor>& made = result.outputs;
  if (made.size() != exact.expected.size()) {
    return NotFound("the run has not handed out what it made");
  }
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison compared,
        CompareNodeOutput(index.KeyOf(node), slot, exact.expected[slot],
                          *made[slot].tensor, kBitForBit));
    check->outputs.push_back(std::move(compared));
  }
  // Constants of the network are inputs of the region, and so were replaced.
  check->has_other_weights =
      std::ranges::any_of(region.is_constant, std::identity());
  if (check->verdict() == Verdict::kError && MayBeInexact(region.network)) {
    return AllowInexact(region, exact, made, check);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Verdict> ExactCheck::verdict() const {
  if (outputs.empty()) return std::nullopt;
  return std::ranges::max_element(outputs, {}, &TensorComparison::verdict)
      ->verdict();
}

ExactCheck CheckExactly(const GraphIndex& index, const OpSet& operators,
                        NodeId node, Runner& candidate,
                        const std::vector<NamedTensor>& inputs, uint64_t seed) {
  ExactCheck check;
  const auto run = [&](const RunOptions& options) {
    return candidate.Run(inputs, options);
  };
  const absl::Status status =
      TryExactly(index, operators, node, run, seed, &check);
  if (status.ok()) return check;
  ExactCheck unchecked;
  unchecked.why_not = std::string(MessageOf(status));
  return unchecked;
}

}  // namespace nodewise
