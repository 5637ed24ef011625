#include "nodewise/locate/layer_comparator.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "contrib/locate/tiled_check.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_collector.h"

// Both comparators find out for each layer what the reference reads and makes,
// and how what the candidate makes in the network compares with that; Judge()
// says what follows. They differ in what they hold meanwhile: all of the
// reference's tensors, or those of one layer, which takes two runs for each.

namespace nodewise {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

// Judges a node that ran alone by what the reference makes of the same inputs,
// and its bounds.
absl::StatusOr<std::vector<TensorComparison>> CheckAlone(
    const Graph& one, absl::Span<const NDArray> read,
    absl::Span<const NamedTensor> made) {
  const GraphIndex index(one);
  TensorCollector run("alone");
  const auto take = [&](NodeId node, uint32_t slot, const NDArray& tensor) {
    const TensorKey key{index.KeyOf(node), slot};
    return run.Consume({.key = key,
                        .tensor = tensor.tensor(),
                        .lasting = tensor,
                        .is_network_input = !one.IsFunction(node)});
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

// As CheckAlone(), but in pieces where that saves much memory.
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
  // Pieces are cut along a side of one output.
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

const TensorComparison& WorstOf(const std::vector<TensorComparison>& outputs) {
  return *std::ranges::max_element(outputs, {}, [](const auto& output) {
    return std::pair(output.verdict(), output.metrics.absolute_needed);
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

// The result of the layer alone decides. Its result in the network only tells
// one that is right from one that inherits, and only if what it read was wrong.
void Conclude(const absl::Status& tried, LayerResult* result) {
  const bool differs = AnyIsWrong(result->in_network);
  if (!tried.ok()) {
    result->verdict = NodeVerdict::kInconclusive;
    result->reason = std::string(MessageOf(tried));
    return;
  }
  // A warning has been weighed already: it passes here, or is an error.
  const Verdict alone = IsolatedVerdict(result->alone);
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

struct LayerSink : public TensorSink {
  using Takes = std::function<absl::Status(EntryId, const TensorItem&)>;

  LayerSink(const LayerSides& sides, Takes takes_output)
      : graph(sides.graph()),
        nodes(sides.index()),
        takes(std::move(takes_output)) {}

  absl::Status Consume(const TensorItem& item) override {
    const auto entry = nodes.MadeEntryOf(item);
    const bool is_of_layer = entry.has_value() && item.tensor != nullptr &&
                             IsLayer(graph, *nodes.NodeOf(item));
    return is_of_layer ? takes(*entry, item) : absl::OkStatus();
  }

  const Graph& graph;
  const KeyedNodes nodes;
  const Takes takes;
};

// Keeps no tensor of the candidate: each is compared as it comes.
struct MadeComparer {
  absl::Status Compare(EntryId entry, const TensorItem& item) {
    const NodeId node = sides.index().NodeOf(entry);
    LayerValues& layer = values[node];
    auto compared = sides.CompareInNetwork(node, item.key.slot,
                                           reference[entry], *item.tensor);
    if (!compared.ok()) {
      layer.compared.Update(compared.status());
      return absl::OkStatus();
    }
    // A program hands out the outputs of a layer in any order.
    const auto place = std::ranges::lower_bound(
        layer.in_network, item.key.slot, {},
        [](const TensorComparison& one) { return one.key.slot; });
    layer.in_network.insert(place, *std::move(compared));
    return absl::OkStatus();
  }

  const LayerSides& sides;
  const ByEntry<NDArray>& reference;
  ByNode<LayerValues> values;
};

// Keeps what one node reads of other nodes: what the network was given is there
// already, and parameters may be large.
struct ReadKeeper : public TensorSink {
  ReadKeeper(const Graph& graph, NodeId node)
      : read(graph.node(node).inputs.size()) {
    for (const EntryRef& ref : graph.node(node).inputs) {
      is_kept.push_back(graph.IsFunction(NodeId{ref.node}));
    }
  }

  absl::Status Consume(const TensorItem& item) override {
    if (item.key.role != TensorRole::kInput || item.tensor == nullptr ||
        item.key.slot >= read.size() || !is_kept[item.key.slot]) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(read[item.key.slot], item.Keep());
    return absl::OkStatus();
  }

  std::vector<NDArray> read;  // Undefined for what the network was given.
  std::vector<bool> is_kept;
};

RunOptions OptionsOf(const Graph& part, TensorSink* sink) {
  // The sink needs what the last node reads, so that nothing else is handed
  // out.
  const NodeId last{static_cast<uint32_t>(part.nodes.size() - 1)};
  const auto is_last = [key = GraphIndex(part).KeyOf(last)](
                           const std::string& one) { return one == key; };
  return {.sink = sink,
          .select = is_last,
          .with_node_inputs = true,
          .in_little_memory = true};
}

// Returns what the node read, each entry once.
std::vector<NDArray> ReadBy(const LayerSides& sides, NodeId node,
                            const ReadKeeper& keeper) {
  std::vector<NDArray> read;
  const Graph& graph = sides.graph();
  const std::vector<EntryRef>& refs = graph.node(node).inputs;
  for (const EntryId entry : EntriesReadBy(graph, node)) {
    const auto ref = std::ranges::find(
        refs, entry, [&](const EntryRef& one) { return graph.EntryOf(one); });
    const NDArray& tensor =
        keeper.read[static_cast<size_t>(ref - refs.begin())];
    read.push_back(tensor.defined() ? tensor : sides.GivenFor(entry));
  }
  return read;
}

absl::StatusOr<LayerValues> RunOnReference(
    const LayerSides& sides, const LayerPart& part,
    const std::vector<NamedTensor>& inputs) {
  const NodeId node = part.nodes.back();
  ReadKeeper keeper(sides.graph(), node);
  NODEWISE_ASSIGN_OR_RETURN(
      const RunResult run,
      sides.RunReference(WithSoundStorage(part.graph), inputs,
                         OptionsOf(part.graph, &keeper)));
  LayerValues values;
  values.read = ReadBy(sides, node, keeper);
  values.expected = Unnamed(run.outputs);
  return values;
}

// The comparison alone stands for the isolated one of Locate(), and that in the
// network for the accumulated one.
NodeReport ReportOfLayer(const LayerResult& result) {
  NodeReport report;
  report.node = result.layer.node;
  report.key = result.layer.name;
  report.covers = result.layer.covers;
  report.verdict = result.verdict;
  report.reason = result.reason;
  report.received = result.received;
  report.made = LargestError(result.alone);
  report.passed_on = LargestError(result.in_network);
  for (const TensorComparison& output : result.in_network) {
    report.evidence.accumulated =
        std::max(report.evidence.accumulated, output.verdict());
  }
  report.evidence.isolated = result.verdict == NodeVerdict::kInconclusive
                                 ? Verdict::kInconclusive
                                 : IsolatedVerdict(result.alone);
  NodeCheck check;
  check.outputs = result.alone.empty() ? result.in_network : result.alone;
  if (check.outputs.empty()) return report;
  report.worst = check.Worst();
  if (report.reason.empty()) report.reason = report.worst->judgement.reason;
  return report;
}

}  // namespace

absl::StatusOr<bool> LayerComparator::verify(
    const std::vector<NamedTensor>& inputs) {
  layers_.clear();
  if (reference_.program() != nullptr) {
    return InvalidArgument(
        "reference {}: is a program, expected functions of nodes",
        reference_.name());
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
  // A layer that ends only some runs may have been judged before it has ended
  // one.
  for (LayerResult& layer : layers_) NoteFailure(sides, &layer);
  if (layers_.empty()) {
    return FailedPrecondition(
        "{}: has no layer, expected at least one node that is called",
        mod_.name);
  }
  return std::ranges::all_of(layers_, [](const auto& layer) {
    return layer.verdict == NodeVerdict::kHealthy;
  });
}

std::vector<LayerResult> LayerComparator::culprits() const {
  std::vector<LayerResult> broken;
  std::ranges::copy_if(layers_, std::back_inserter(broken), IsCulpritVerdict,
                       &LayerResult::verdict);
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
  // Layers are judged in their order, so that those it reads have results.
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
  // The tensors of a test case are at hand now, and gone when the next layer is
  // judged.
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
  // A failure of any node of the part is one of this layer: the others are its
  // inputs.
  LayerPart part{one, std::vector<NodeId>(one.nodes.size(), node)};
  for (size_t i = 0; i < values.read.size(); ++i) {
    if (!values.read[i].defined()) continue;  // The run says what is missing.
    part.given.tensors.push_back({one.nodes[i].name, values.read[i]});
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const RunResult run,
      sides.RunCandidate(part, {}, {.in_little_memory = true}));
  if (sides.HasBounds()) {
    NODEWISE_ASSIGN_OR_RETURN(
        result->alone, CheckByBounds(one, result->layer.name, values, run));
    return absl::OkStatus();
  }
  for (uint32_t slot = 0; slot < run.outputs.size(); ++slot) {
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison compared,
        CompareNodeOutput(result->layer.name, slot, values.expected[slot],
                          *run.outputs[slot].tensor, {sides.rule()}));
    result->alone.push_back(std::move(compared));
  }
  return absl::OkStatus();
}

void LayerComparator::NoteRead(const Graph& graph, LayerResult* result) const {
  for (EntryRef ref : graph.node(result->layer.node).inputs) {
    // A node that only gives a tensor another shape is not a layer: what made
    // the tensor is.
    while (graph.nodes[ref.node].function == kNopFunction) {
      ref = graph.nodes[ref.node].inputs[0];
    }
    const auto maker =
        std::ranges::find(layers_, NodeId{ref.node},
                          [](const auto& result) { return result.layer.node; });
    if (maker == layers_.end() || ref.output >= maker->in_network.size()) {
      continue;
    }
    const TensorComparison& read = maker->in_network[ref.output];
    result->received = std::max(result->received, RelativeError(read));
    result->read_wrong |= read.is_wrong() ||
                          maker->verdict == NodeVerdict::kBroken ||
                          maker->verdict == NodeVerdict::kInherits;
  }
}

absl::Status IntermediateLayerComparator::Compare(LayerSides& sides) {
  const Graph& graph = sides.graph();
  const std::vector<NamedTensor> inputs = sides.InputsOf(graph);
  RunOptions options;
  ByEntry<NDArray> made(graph);  // By the reference's layers.
  LayerSink reference(
      sides, [&](EntryId entry, const TensorItem& item) -> absl::Status {
        NODEWISE_ASSIGN_OR_RETURN(made[entry], item.Keep());
        return absl::OkStatus();
      });
  options.sink = &reference;
  NODEWISE_RETURN_IF_ERROR(
      sides.RunReference(WithSoundStorage(graph), inputs, options).status());
  const IdRange<NodeId> nodes = AllNodes(graph);
  const LayerPart all{graph, {nodes.begin(), nodes.end()}};
  MadeComparer comparer{sides, made, ByNode<LayerValues>(graph)};
  LayerSink candidate(sides, [&](EntryId entry, const TensorItem& item) {
    return comparer.Compare(entry, item);
  });
  options.sink = &candidate;
  const auto forget = [&] { comparer.values = ByNode<LayerValues>(graph); };
  NODEWISE_RETURN_IF_ERROR(
      sides.RunCandidate(all, inputs, options, forget).status());
  for (const NodeId node : FunctionNodesOf(graph)) {
    if (!IsLayer(graph, node)) continue;
    LayerValues& values = comparer.values[node];
    for (const EntryId entry : EntriesReadBy(graph, node)) {
      values.read.push_back(made[entry].defined() ? made[entry]
                                                  : sides.GivenFor(entry));
    }
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      values.expected.push_back(made[entry]);
    }
    NODEWISE_RETURN_IF_ERROR(Judge(sides, node, std::move(values)));
  }
  return absl::OkStatus();
}

absl::Status RecursiveLayerComparator::Compare(LayerSides& sides) {
  // The peak of resident memory is what this comparison is measured by: blocks
  // that the allocator keeps for later would count, too.
  ReturnLargeBlocksAtOnce();
  const Graph& graph = sides.graph();
  for (const NodeId node : FunctionNodesOf(graph)) {
    if (!IsLayer(graph, node)) continue;
    // Nothing of one layer is kept for the next one: that is what makes the
    // memory small, and takes a run of all that comes before for each.
    LayerPart part;
    part.graph = GraphUpTo(graph, node, &part.nodes);
    const std::vector<NamedTensor> inputs = sides.InputsOf(part.graph);
    NODEWISE_ASSIGN_OR_RETURN(LayerValues values,
                              RunOnReference(sides, part, inputs));
    ReturnFreedMemory();
    NODEWISE_ASSIGN_OR_RETURN(
        RunResult found,
        sides.RunCandidate(part, inputs, OptionsOf(part.graph, nullptr)));
    for (uint32_t slot = 0; slot < found.outputs.size(); ++slot) {
      auto compared = sides.CompareInNetwork(node, slot, values.expected[slot],
                                             *found.outputs[slot].tensor);
      if (compared.ok()) {
        values.in_network.push_back(*std::move(compared));
      } else {
        values.compared.Update(compared.status());
      }
    }
    found.outputs.clear();  // Before memory is needed to try it alone.
    ReturnFreedMemory();
    NODEWISE_RETURN_IF_ERROR(Judge(sides, node, std::move(values)));
    ReturnFreedMemory();
  }
  return absl::OkStatus();
}

LocateResult LocatedLayers(const LayerModule& mod,
                           const LayerComparator& comparator) {
  LocateResult located;
  std::vector<NodeFailure> failures;
  for (const LayerResult& result : comparator.layers()) {
    if (result.failure.has_value()) failures.push_back(*result.failure);
    if (IsCulpritVerdict(result.verdict)) {
      located.culprits.push_back({located.nodes.size(), std::nullopt, {}});
    }
    located.nodes.push_back(ReportOfLayer(result));
  }
  NoteFailures({{}, failures}, &located);
  for (const EntryRef& head : mod.graph.heads) {
    for (const LayerResult& result : comparator.layers()) {
      if (Index(result.layer.node) == head.node &&
          head.output < result.in_network.size()) {
        located.outputs.push_back(result.in_network[head.output]);
      }
    }
  }
  return located;
}

}  // namespace nodewise
