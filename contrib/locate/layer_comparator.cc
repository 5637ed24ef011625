#include "nodewise/locate/layer_comparator.h"

#include <algorithm>
#include <utility>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/live_set.h"
#include "contrib/locate/partial_graph.h"
#include "contrib/locate/tiled_check.h"
#include "fmt/format.h"
#include "nodewise/interp/evaluator.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_collector.h"

namespace nodewise {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

bool AnyIsWrong(absl::Span<const TensorComparison> outputs) {
  return std::any_of(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
}

// Judges a node that ran alone by what the reference makes of the same inputs,
// and its bounds.
absl::StatusOr<std::vector<TensorComparison>> CheckAlone(
    const Graph& one, absl::Span<const NDArray> read,
    absl::Span<const NamedTensor> made) {
  const GraphIndex index(one);
  TensorCollector run("alone");
  const auto take = [&](NodeId node, uint32_t slot, const NDArray& tensor) {
    const TensorKey key{index.KeyOf(node), slot};
    TensorItem item{key};
    item.tensor = tensor.tensor();
    item.lasting = tensor;
    item.is_network_input = !one.IsFunction(node);
    return run.Take(item);
  };
  for (uint32_t i = 0; i < read.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(take(NodeId{i}, 0, read[i]));
  }
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    const auto last = static_cast<uint32_t>(one.nodes.size() - 1);
    NODEWISE_RETURN_IF_ERROR(take(NodeId{last}, slot, made[slot].tensor));
  }
  NODEWISE_ASSIGN_OR_RETURN(NodeChecks checks,
                            CheckNodes(index, AllOperators(), run));
  return std::move(checks.nodes[0].outputs);
}

// Does the same, in pieces where that saves much memory.
absl::StatusOr<std::vector<TensorComparison>> CheckByBounds(
    const Graph& one, const std::string& name, const LayerValues& values,
    const RunResult& run) {
  const NodeId last{static_cast<uint32_t>(one.nodes.size() - 1)};
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfNode(one, last, AllOperators()));
  // A node that reads one tensor twice has an input for each.
  std::vector<NDArray> read;
  for (const EntryRef& ref : one.nodes[Index(last)].inputs) {
    read.push_back(values.read[ref.node]);
    NODEWISE_RETURN_IF_ERROR(MakeReadable(&read.back()));
  }
  if (run.outputs.size() == 1 &&
      NeedsTiles(region.network, values.expected[0])) {
    const auto checked = CheckInTiles(
        name,
        {region.network, read, values.expected[0], run.outputs[0].tensor});
    // Where pieces cannot be computed, the whole may be.
    if (checked.ok() && checked->has_value()) {
      return std::vector<TensorComparison>{**checked};
    }
  }
  return CheckAlone(one, values.read, run.outputs);
}

// Returns the verdict that counts of a layer alone.
Verdict AloneVerdict(const std::vector<TensorComparison>& outputs) {
  NodeCheck check;
  check.outputs = outputs;
  return IsolatedVerdict(check);
}

const TensorComparison& WorstOf(const std::vector<TensorComparison>& outputs) {
  return *std::max_element(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& a, const TensorComparison& b) {
        if (a.verdict() != b.verdict()) return a.verdict() < b.verdict();
        return a.metrics.absolute_needed < b.metrics.absolute_needed;
      });
}

// The reference stands in for a layer that has ended a run, so that what was
// seen of it says nothing.
void NoteFailure(const LayerSides& sides, LayerResult* result) {
  const NodeFailure* const failure = sides.FailureOf(result->layer.node);
  if (failure == nullptr) return;
  result->failure = *failure;
  result->verdict = failure->kind == NodeFailure::Kind::kHang
                        ? NodeVerdict::kHangs
                        : NodeVerdict::kCrashes;
  result->reason = failure->what;
  result->alone.clear();
}

void Conclude(const absl::Status& tried, LayerResult* result) {
  const bool differs = AnyIsWrong(result->in_network);
  if (!tried.ok()) {
    result->verdict = NodeVerdict::kInconclusive;
    result->reason = std::string(MessageOf(tried));
    return;
  }
  const Verdict alone = AloneVerdict(result->alone);
  if (alone == Verdict::kError || alone == Verdict::kInconclusive) {
    result->verdict = alone == Verdict::kError ? NodeVerdict::kBroken
                                               : NodeVerdict::kInconclusive;
    result->reason = WorstOf(result->alone).judgement.reason;
  } else if (differs && result->read_wrong) {
    result->verdict = NodeVerdict::kInherits;
    result->reason = fmt::format(
        "right on the reference's inputs; what it read was off by {:.2g} of "
        "its size",
        result->received);
  } else if (differs) {
    result->verdict = NodeVerdict::kInconclusive;
    result->reason =
        "right on the reference's inputs, but not in the network, though what "
        "it reads is right there: rounding errors that it enlarges, or the "
        "places of its tensors in memory, or chance";
  }
}

}  // namespace

LayerComparator::LayerComparator(const LayerModule& mod, LayerBackend reference,
                                 LayerBackend candidate, double threshold)
    : LayerComparator(mod, std::move(reference), std::move(candidate),
                      Rule{Rule::Kind::kAbsolute, {.absolute = threshold}}) {}

LayerComparator::LayerComparator(const LayerModule& mod, LayerBackend reference,
                                 LayerBackend candidate, Rule rule)
    : mod_(mod),
      reference_(std::move(reference)),
      candidate_(std::move(candidate)),
      rule_(rule) {}

absl::StatusOr<bool> LayerComparator::verify(
    const std::vector<NamedTensor>& inputs) {
  layers_.clear();
  if (reference_.program() != nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("reference {}: is a program, expected functions of nodes",
                    reference_.name()));
  }
  const int64_t start_ns = ClockNanoseconds();
  LayerSides::Side reference{reference_, nullptr};
  LayerSides::Side candidate{candidate_, nullptr};
  NODEWISE_ASSIGN_OR_RETURN(reference.functions, reference_.Functions());
  NODEWISE_ASSIGN_OR_RETURN(candidate.functions, candidate_.Functions());
  LayerSides sides(mod_, inputs, std::move(reference), std::move(candidate),
                   rule_);
  sides.SetNodeLimit(node_limit_ms_);
  const absl::Status status = Compare(sides);
  cost_.seconds = static_cast<double>(ClockNanoseconds() - start_ns) /
                  kNanosecondsPerSecond;
  cost_.peak_bytes = sides.memory().bytes();
  cost_.live_bytes = LargestLiveSet(mod_.graph, mod_.params);
  NODEWISE_RETURN_IF_ERROR(status);
  // One that ends some runs only may have been judged before.
  for (LayerResult& layer : layers_) NoteFailure(sides, &layer);
  if (layers_.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: has no layer, expected at least one node that is called",
        mod_.name));
  }
  return std::all_of(layers_.begin(), layers_.end(), [](const auto& layer) {
    return layer.verdict == NodeVerdict::kHealthy;
  });
}

std::vector<LayerResult> LayerComparator::culprits() const {
  std::vector<LayerResult> broken;
  std::copy_if(layers_.begin(), layers_.end(), std::back_inserter(broken),
               [](const LayerResult& layer) { return Accuses(layer.verdict); });
  return broken;
}

absl::Status LayerComparator::Judge(LayerSides& sides, NodeId node,
                                    LayerValues values) {
  LayerResult result;
  NODEWISE_ASSIGN_OR_RETURN(result.layer,
                            DescribeLayer(sides.index(), node, AllOperators()));
  NODEWISE_RETURN_IF_ERROR(
      NameByCall(sides.graph(), mod_.calls, AllOperators(), &result.layer));
  if (observer_ != nullptr) {
    NODEWISE_RETURN_IF_ERROR(observer_->Begins(result.layer));
  }
  result.in_network = std::move(values.in_network);
  NoteRead(sides.graph(), &result);
  absl::Status tried = values.compared;
  const bool has_failed = sides.FailureOf(node) != nullptr;
  // An output that a program has not handed out is only known by trying alone.
  const bool is_unseen = result.in_network.size() < result.layer.outputs.size();
  if (tried.ok() && !has_failed &&
      (sides.HasBounds() || all_alone_ || is_unseen ||
       AnyIsWrong(result.in_network))) {
    tried = TryAlone(sides, values, &result);
  }
  Conclude(tried, &result);
  NoteFailure(sides, &result);
  if (observer_ != nullptr && result.verdict == NodeVerdict::kBroken) {
    NODEWISE_ASSIGN_OR_RETURN(
        const Network network,
        NetworkOfLayer(sides.graph(), result.layer, AllOperators()));
    NODEWISE_RETURN_IF_ERROR(
        observer_->IsBroken({result, network, values.read, values.expected}));
  }
  layers_.push_back(std::move(result));
  if (observer_ == nullptr) return absl::OkStatus();
  return observer_->Ends(layers_.back());
}

absl::Status LayerComparator::TryAlone(LayerSides& sides,
                                       const LayerValues& values,
                                       LayerResult* result) const {
  const NodeId node = result->layer.node;
  const Graph one = GraphOfOne(sides.graph(), node);
  LayerPart part{one, std::vector<NodeId>(one.nodes.size(), node)};
  for (size_t i = 0; i < values.read.size(); ++i) {
    if (!values.read[i].defined()) continue;  // The run says what is missing.
    part.given.tensors.push_back({one.nodes[i].name, values.read[i]});
  }
  RunOptions options;
  options.in_little_memory = true;
  NODEWISE_ASSIGN_OR_RETURN(const RunResult run,
                            sides.RunCandidate(part, {}, options));
  if (sides.HasBounds()) {
    NODEWISE_ASSIGN_OR_RETURN(
        result->alone, CheckByBounds(one, result->layer.name, values, run));
    return absl::OkStatus();
  }
  for (uint32_t slot = 0; slot < run.outputs.size(); ++slot) {
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison compared,
        CompareLayerOutput(result->layer.name, slot, values.expected[slot],
                           *run.outputs[slot].tensor, {sides.rule()}));
    result->alone.push_back(std::move(compared));
  }
  return absl::OkStatus();
}

void LayerComparator::NoteRead(const Graph& graph, LayerResult* result) const {
  for (EntryRef ref : graph.node(result->layer.node).inputs) {
    while (graph.nodes[ref.node].function == kNopFunction) {
      ref = graph.nodes[ref.node].inputs[0];
    }
    const LayerResult* const maker = FindLayer(NodeId{ref.node});
    if (maker == nullptr || ref.output >= maker->in_network.size()) continue;
    const TensorComparison& read = maker->in_network[ref.output];
    result->received = std::max(result->received, RelativeError(read));
    result->read_wrong |= read.is_wrong() ||
                          maker->verdict == NodeVerdict::kBroken ||
                          maker->verdict == NodeVerdict::kInherits;
  }
}

const LayerResult* LayerComparator::FindLayer(NodeId node) const {
  const auto found = std::lower_bound(layers_.begin(), layers_.end(), node,
                                      [](const LayerResult& result, NodeId id) {
                                        return result.layer.node < id;
                                      });
  const bool is_there = found != layers_.end() && found->layer.node == node;
  return is_there ? &*found : nullptr;
}

}  // namespace nodewise
