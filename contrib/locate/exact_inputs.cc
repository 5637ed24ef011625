#include "nodewise/locate/exact_inputs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/interp/exact_tensors.h"
#include "nodewise/lower/region.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/conv_transpose.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr CompareOptions kBitForBit = {{Rule::Kind::kTolerance, {0, 0}}};

bool IsAllOnes(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](int64_t x) { return x == 1; });
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

// One node of the candidate's graph.
class ExactChecker {
 public:
  ExactChecker(const GraphIndex& index, NodeId node)
      : index_(index), graph_(index.graph()), node_(node) {}

  absl::Status Check(const OpSet& operators, Runner& candidate,
                     const std::vector<NamedTensor>& inputs, uint64_t seed,
                     ExactCheck* check) {
    NODEWISE_ASSIGN_OR_RETURN(const Region region, RegionOfNode(operators));
    NODEWISE_ASSIGN_OR_RETURN(const ExactTensors exact,
                              DrawExactTensors(region.network, seed));
    RunOptions options;
    NODEWISE_ASSIGN_OR_RETURN(options.patches, PatchesOf(exact.inputs));
    options.stop = StopRule{index_.KeyOf(node_), "the node", std::nullopt};
    NODEWISE_ASSIGN_OR_RETURN(const RunResult made,
                              candidate.Run(inputs, options));
    NODEWISE_RETURN_IF_ERROR(Compare(exact, made.outputs, check));
    check->has_other_weights =
        std::any_of(region.is_constant.begin(), region.is_constant.end(),
                    [](bool is_constant) { return is_constant; });
    if (check->verdict() == Verdict::kError && MayBeInexact(region.network)) {
      NODEWISE_RETURN_IF_ERROR(
          AllowInexact(region, exact, made.outputs, check));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Region> RegionOfNode(const OpSet& operators) const {
    const GraphNode& node = graph_.node(node_);
    std::vector<NDArray> tensors;
    const auto add = [&](EntryId entry) -> absl::Status {
      NODEWISE_ASSIGN_OR_RETURN(
          NDArray tensor, NDArray::Empty(graph_.entry(entry).shape,
                                         graph_.entry(entry).dtype, kCpu));
      tensors.push_back(std::move(tensor));
      return absl::OkStatus();
    };
    for (const EntryRef& ref : node.inputs) {
      NODEWISE_RETURN_IF_ERROR(add(graph_.EntryOf(ref)));
    }
    const uint32_t outputs = graph_.OutputsOf(node_);
    for (uint32_t slot = 0; slot < outputs; ++slot) {
      NODEWISE_RETURN_IF_ERROR(add(graph_.EntryOf(node_, slot)));
    }
    std::vector<const DLTensor*> arguments;
    for (const NDArray& tensor : tensors) arguments.push_back(tensor.tensor());
    return RegionOf({node.function, node.attrs, arguments, outputs}, operators);
  }

  // An entry that the node reads twice can only be one tensor.
  absl::StatusOr<std::vector<TensorPatch>> PatchesOf(
      const std::vector<NDArray>& inputs) const {
    std::vector<TensorPatch> patches;
    std::set<EntryId> seen;
    const std::vector<EntryRef>& refs = graph_.node(node_).inputs;
    for (size_t i = 0; i < refs.size(); ++i) {
      const EntryId entry = graph_.EntryOf(refs[i]);
      if (!seen.insert(entry).second) {
        return absl::UnimplementedError("reads one tensor twice");
      }
      patches.push_back({index_.KeyOf(entry), inputs[i], "exact inputs",
                         index_.KeyOf(node_)});
    }
    return patches;
  }

  absl::Status Compare(const ExactTensors& exact,
                       const std::vector<NamedTensor>& made,
                       ExactCheck* check) const {
    if (made.size() != exact.expected.size()) {
      return absl::NotFoundError("the run has not handed out what it made");
    }
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const TensorKey key{index_.KeyOf(node_), slot, TensorRole::kOutput,
                          "reference"};
      TensorItem item{key};
      item.tensor = exact.expected[slot].tensor();
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison compared,
          CompareTensors(item, *made[slot].tensor, kBitForBit));
      check->outputs.push_back(std::move(compared));
    }
    return absl::OkStatus();
  }

  // Turns errors that the proved bound allows into a remark.
  static absl::Status AllowInexact(const Region& region,
                                   const ExactTensors& exact,
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

  const GraphIndex& index_;
  const Graph& graph_;
  const NodeId node_;
};

}  // namespace

std::optional<Verdict> ExactCheck::verdict() const {
  if (outputs.empty()) return std::nullopt;
  Verdict worst = Verdict::kPass;
  for (const TensorComparison& output : outputs) {
    worst = std::max(worst, output.verdict());
  }
  return worst;
}

ExactCheck CheckExactly(const GraphIndex& index, const OpSet& operators,
                        NodeId node, Runner& candidate,
                        const std::vector<NamedTensor>& inputs, uint64_t seed) {
  ExactCheck check;
  const absl::Status status =
      ExactChecker(index, node)
          .Check(operators, candidate, inputs, seed, &check);
  if (!status.ok()) {
    check = ExactCheck();
    check.why_not = std::string(MessageOf(status));
  }
  return check;
}

}  // namespace nodewise
