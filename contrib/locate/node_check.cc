#include "nodewise/locate/node_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/locate.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {

absl::Status CheckGivenNumbers(absl::Span<const NamedTensor> inputs) {
  for (const NamedTensor& input : inputs) {
    const NDArray& tensor = input.tensor;
    if (!IsFloat(tensor.dtype()) || tensor.dtype().lanes != 1) continue;
    const auto count = NumElements(tensor.shape());
    std::vector<double> numbers(static_cast<size_t>(count.value_or(0)));
    if (!DecodeToDoubles(tensor.dtype(), tensor.data(), numbers.size(),
                         numbers.data())) {
      continue;
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!std::isnan(numbers[i])) continue;
      return FailedPrecondition(
          "input {}: element {} is NaN, expected numbers: what it reaches is "
          "NaN on both sides and counts as equal, so that it is not judged "
          "(give numbers; {} names the nodes that are given NaN)",
          Printable(input.name), i, NameOf(Way::kNodeByNode));
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<NDArray> KeepReadable(const TensorItem& item) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray kept, item.Keep());
  NODEWISE_RETURN_IF_ERROR(MakeReadable(&kept));
  return kept;
}

bool IsKept(const NDArray& kept, const TensorItem& item) {
  return kept.defined() && item.tensor->device.device_type == kDLCPU &&
         IsCompact(*item.tensor) &&
         HaveSameBytes(kept, NDArray::Borrow(*item.tensor, nullptr));
}

// "Conv+Relu": each operator once, in the order of the region. A long list is
// cut down to its ends.
std::string OperatorsOf(const Region& region) {
  std::vector<std::string> names;
  for (const OperationId id : SourceOperations(region)) {
    const std::string name(region.network.operation(id).def().name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  // More names would say no more in a report: the operations themselves are in
  // NodeReport::covers.
  constexpr size_t kMostNames = 4;
  if (names.size() > kMostNames) {
    names = {names[0], names[1], "...", names.back()};
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

// The run and up to two more are held side by side: what the run made, what the
// reference's own run of the network makes, and what nodes that are wrong
// should have made. Tensors of all three are let go as soon as no later node
// reads them, so that a check takes a few times the memory of a run, and not
// that of all tensors.
//
// Checks each node as soon as the run has handed out what it made.
class NodeChecker : public TensorSink {
 public:
  NodeChecker(const GraphIndex& index, const OpSet& ops,
              const NodeCheckOptions& options)
      : index_(index), ops_(ops), options_(options) {}

  absl::Status Consume(const TensorItem& item) override {
    const auto found = nodes_.NodeOf(item);
    if (!found.has_value() || item.tensor == nullptr) return absl::OkStatus();
    const NodeId node = *found;
    if (item.key.role == TensorRole::kInput) return RecordRead(node, item);
    if (item.key.slot >= graph_.OutputsOf(node)) return absl::OkStatus();
    const EntryId entry = graph_.EntryOf(node, item.key.slot);
    NODEWISE_ASSIGN_OR_RETURN(made_[entry], KeepReadable(item));
    // Nodes with several outputs are checked with the last of them, which is
    // when all of them are there.
    if (options_.with_accumulated) NoteMade(node, entry);
    const bool is_last = item.key.slot + 1 == graph_.OutputsOf(node);
    if (!is_last || !graph_.IsFunction(node)) return absl::OkStatus();
    Check(node);
    if (options_.progress) options_.progress(Index(node), graph_.nodes.size());
    return absl::OkStatus();
  }

  NodeChecks Finish() {
    for (const NodeId node : FunctionNodesOf(graph_)) {
      if (is_done_[node]) continue;
      Skip(node, "the run has not handed out what it made");
    }
    if (options_.with_accumulated) {
      for (const EntryRef& head : graph_.heads) {
        checks_.reference_outputs.push_back(reference_[graph_.EntryOf(head)]);
      }
    }
    return std::move(checks_);
  }

 private:
  absl::Status RecordRead(NodeId node, const TensorItem& item) {
    std::vector<NDArray>& inputs = read_[node];
    inputs.resize(graph_.node(node).inputs.size());
    if (item.key.slot >= inputs.size()) return absl::OkStatus();
    // Mostly nothing has written over a tensor since it was made: to compare
    // what is read with what was made takes less time than to copy it, and no
    // memory.
    const NDArray& made =
        made_[graph_.EntryOf(graph_.node(node).inputs[item.key.slot])];
    if (IsKept(made, item)) {
      inputs[item.key.slot] = made;
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(inputs[item.key.slot], KeepReadable(item));
    return absl::OkStatus();
  }

  // The reference begins with what the network was given.
  void NoteMade(NodeId node, EntryId entry) {
    const NDArray& made = made_[entry];
    const TensorStats stats = StatsOf(*made);
    non_finite_[entry] = {stats.nans, stats.infinities};
    if (!graph_.IsFunction(node)) reference_[entry] = made;
  }

  void Check(NodeId node) {
    if (options_.selects && !options_.selects(node)) {
      is_done_[node] = true;
      StandIn(node);
      return DropAfter(node);
    }
    NodeCheck check{node, index_.KeyOf(node)};
    // Should the reference crash on this node, messages name it.
    const WorkingOn on(graph_.node(node).name);
    const absl::Status status = Compare(&check);
    if (status.ok()) {
      checks_.nodes.push_back(std::move(check));
      is_done_[node] = true;
    } else {
      Skip(node, std::string(MessageOf(status)));
    }
    DropAfter(node);
  }

  // Fails with the reason for skipping the node if anything keeps it from being
  // checked.
  absl::Status Compare(NodeCheck* check) {
    const NodeId node = check->node;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> inputs,
                              InputsOf(node));
    std::vector<NDArray> made;
    for (const EntryId entry : EntriesMadeBy(graph_, node)) {
      made.push_back(made_[entry]);
      if (made.back().defined()) continue;
      return NotFound("the run has not handed out its output {}",
                      index_.OutputOf(entry));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const Region region,
        RegionOfTensors(graph_.node(node), inputs, made, ops_));
    check->operators = OperatorsOf(region);
    auto reference = RunWithLazyBounds(region.network, inputs);
    if (!reference.ok()) return At("the reference", reference.status());
    const std::vector<NDArray>& expected = (*reference)->outputs();
    NODEWISE_ASSIGN_OR_RETURN(
        check->outputs, CompareByBounds(check->key, reference->get(), made,
                                        options_.with_all_bounds));
    if (options_.with_accumulated) {
      NODEWISE_RETURN_IF_ERROR(
          Accumulate(region, inputs, expected, made, check));
    }
    // Only culprits are repaired with these tensors; to keep those of all nodes
    // would take the memory of all tensors.
    if (check->Worst().verdict() != Verdict::kPass) {
      check->expected = expected;
      for (const EntryId entry : EntriesMadeBy(graph_, node)) {
        check->reference.push_back(reference_[entry]);
      }
    }
    if (options_.asks_readers) {
      NODEWISE_RETURN_IF_ERROR(
          CheckReadersOnRightInputs(region, inputs, made, check));
    }
    if (options_.explain) {
      NoteDequantized(node, region.network, inputs);
      if (IsLarge(check->outputs)) {
        const TensorComparison& worst = check->Worst();
        check->cause =
            options_.explain({region.network, inputs, expected, made,
                              worst.key.slot, worst, DequantizedOf(node)});
      }
    }
    return absl::OkStatus();
  }

  // The tensor that was handed out for a value may differ from the one that its
  // readers were given; whether they are right on the value as it should be
  // tells.
  absl::Status CheckReadersOnRightInputs(const Region& region,
                                         std::vector<NDArray> inputs,
                                         const std::vector<NDArray>& made,
                                         NodeCheck* check) {
    const std::vector<EntryRef>& refs = graph_.node(check->node).inputs;
    bool is_any = false;
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      const NDArray& right = should_be_[graph_.EntryOf(refs[slot])];
      if (!right.defined()) continue;
      inputs[slot] = right;
      is_any = true;
    }
    if (is_any) {
      NODEWISE_ASSIGN_OR_RETURN(
          const auto reference,
          RunWithLazyBounds(region.network, std::move(inputs)));
      NODEWISE_ASSIGN_OR_RETURN(
          check->on_right_inputs,
          CompareByBounds(check->key, reference.get(), made,
                          options_.with_all_bounds));
    }
    // Readers of a value that is only a little off would be right on both.
    if (!IsLarge(check->outputs)) return absl::OkStatus();
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      should_be_[graph_.EntryOf(check->node, slot)] = check->expected[slot];
    }
    return absl::OkStatus();
  }

  // A runtime may fuse the DequantizeLinear into a product of integers. Which
  // integers the floats stand for then explains what the product is.
  void NoteDequantized(NodeId node, const Network& region,
                       const std::vector<NDArray>& inputs) {
    if (region.order().size() != 1) return;
    const Operation& operation = region.operation(region.order()[0]);
    if (operation.kind() != "DequantizeLinear") return;
    const auto given = [&](size_t slot) {
      return slot < operation.inputs.size()
                 ? GivenFor(operation.inputs[slot], region, inputs)
                 : NDArray();
    };
    dequantized_[graph_.EntryOf(node, 0)] = {given(0), given(1), given(2)};
  }

  std::vector<Dequantized> DequantizedOf(NodeId node) const {
    std::vector<Dequantized> inputs;
    for (const EntryRef& ref : graph_.node(node).inputs) {
      inputs.push_back(dequantized_[graph_.EntryOf(ref)]);
    }
    return inputs;
  }

  // Has the reference go on from its own results. `expected` is what it makes
  // of what the node has read, which is the same as long as nothing differs.
  absl::Status Accumulate(const Region& region,
                          const std::vector<NDArray>& read,
                          const std::vector<NDArray>& expected,
                          const std::vector<NDArray>& made, NodeCheck* check) {
    std::vector<NDArray> inputs;
    bool are_same = true;
    const std::vector<EntryRef>& refs = graph_.node(check->node).inputs;
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph_.EntryOf(refs[slot]);
      // A tensor that came in another order than the graph's has no reference
      // yet.
      inputs.push_back(reference_[entry].defined() ? reference_[entry]
                                                   : read[slot]);
      are_same = are_same && HaveSameBytes(inputs.back(), read[slot]);
      check->received = std::max(check->received, error_[entry]);
      (graph_.IsFunction(NodeId{refs[slot].node}) ? check->read_non_finite
                                                  : check->given_non_finite) +=
          non_finite_[entry];
    }
    // Until the first difference, the node is computed once for both runs.
    std::vector<NDArray> reference = expected;
    if (!are_same) {
      NODEWISE_ASSIGN_OR_RETURN(reference,
                                Interpret(region.network, std::move(inputs)));
    }
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const EntryId entry = graph_.EntryOf(check->node, slot);
      reference_[entry] = reference[slot];
      check->made_non_finite += non_finite_[entry];
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison compared,
          CompareNodeOutput(
              check->key, slot, reference[slot], *made[slot],
              AccumulatedOptions(tolerance_, reference[slot].dtype())));
      error_[entry] = RelativeError(compared);
      check->accumulated.push_back(std::move(compared));
    }
    return absl::OkStatus();
  }

  // Returns what the node read, or else what was made for it to read.
  absl::StatusOr<std::vector<NDArray>> InputsOf(NodeId node) const {
    std::vector<NDArray> inputs = read_[node];
    const std::vector<EntryRef>& refs = graph_.node(node).inputs;
    inputs.resize(refs.size());
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph_.EntryOf(refs[slot]);
      if (!inputs[slot].defined()) inputs[slot] = made_[entry];
      if (inputs[slot].defined()) continue;
      return NotFound("the run has not handed out its input {} ({})", slot,
                      index_.KeyOf(entry));
    }
    return inputs;
  }

  void DropAfter(NodeId node) {
    read_[node].clear();
    const auto drop = [&](EntryId entry) {
      // An output of the graph is read after the last node, and so stays.
      if (index_.LifetimeOf(entry).last_read <= int64_t{Index(node)}) {
        made_[entry] = NDArray();
        reference_[entry] = NDArray();
        dequantized_[entry] = {};
        should_be_[entry] = NDArray();
      }
    };
    for (const EntryRef& ref : graph_.node(node).inputs) {
      drop(graph_.EntryOf(ref));
    }
    for (const EntryId entry : EntriesMadeBy(graph_, node)) drop(entry);
  }

  // The reference goes on with what the node made.
  void StandIn(NodeId node) {
    for (const EntryId entry : EntriesMadeBy(graph_, node)) {
      if (!reference_[entry].defined()) reference_[entry] = made_[entry];
    }
  }

  void Skip(NodeId node, std::string why) {
    is_done_[node] = true;
    StandIn(node);
    checks_.skipped.push_back({node, index_.KeyOf(node), std::move(why)});
  }

  const GraphIndex& index_;
  const OpSet& ops_;
  const NodeCheckOptions& options_;
  const Graph& graph_ = index_.graph();
  const KeyedNodes nodes_{index_};
  ByEntry<NDArray> made_{graph_};
  // With accumulated errors: the reference's run of the whole network, how far
  // the run is from it, and what in the run is not finite.
  ByEntry<NDArray> reference_{graph_};
  ByEntry<double> error_{graph_};
  ByEntry<NonFiniteCount> non_finite_{graph_};
  // With NodeCheckOptions::explain.
  ByEntry<Dequantized> dequantized_{graph_};
  // With NodeCheckOptions::asks_readers.
  ByEntry<NDArray> should_be_{graph_};
  ByNode<std::vector<NDArray>> read_{graph_};
  ByNode<bool> is_done_{graph_};
  // The tolerance for accumulated errors.
  const Tolerance tolerance_ = AccumulatedTolerance(graph_);
  NodeChecks checks_;
};

}  // namespace

const TensorComparison& NodeCheck::Worst() const {
  return *std::ranges::max_element(
      outputs, [](const TensorComparison& a, const TensorComparison& b) {
        if (a.verdict() != b.verdict()) return a.verdict() < b.verdict();
        return ErrorOverBound(a) < ErrorOverBound(b);
      });
}

bool NodeCheck::IsEqual() const {
  return std::ranges::all_of(outputs, &TensorComparison::is_equal);
}

double NodeCheck::MadeError() const { return LargestError(outputs); }

double NodeCheck::PassedOnError() const { return LargestError(accumulated); }

size_t NodeChecks::CountOf(Verdict verdict) const {
  return static_cast<size_t>(std::ranges::count(
      nodes, verdict,
      [](const NodeCheck& check) { return check.Worst().verdict(); }));
}

size_t NodeChecks::CountEqual() const {
  return static_cast<size_t>(std::ranges::count_if(nodes, &NodeCheck::IsEqual));
}

const NodeCheck* NodeChecks::Find(NodeId node) const {
  const auto found = std::ranges::find(nodes, node, &NodeCheck::node);
  return found == nodes.end() ? nullptr : &*found;
}

const NodeCheck* NodeChecks::FirstWrong() const {
  const auto found = std::ranges::find_if(nodes, &NodeCheck::IsWrong);
  return found == nodes.end() ? nullptr : &*found;
}

absl::StatusOr<NodeChecks> CheckNodes(const GraphIndex& index, const OpSet& ops,
                                      TensorSource& run,
                                      const NodeCheckOptions& options) {
  const DefaultFloatEnvironment floats;
  NodeChecker checker(index, ops, options);
  NODEWISE_RETURN_IF_ERROR(run.Visit(checker));
  NodeChecks checks = checker.Finish();
  if (!checks.nodes.empty()) return checks;
  return FailedPrecondition("{}: no node could be checked{}{}", run.name(),
                            checks.skipped.empty() ? "" : ": ",
                            checks.skipped.empty()
                                ? ""
                                : fmt::format("{}: {}", checks.skipped[0].key,
                                              checks.skipped[0].why));
}

}  // namespace nodewise
