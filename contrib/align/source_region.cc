#include "nodewise/align/source_region.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/align/graph_walk.h"
#include "contrib/align/layout_operations.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// An operation that was taken apart has fewer nodes.
constexpr size_t kMostNodes = 16;

// Writes the network between what a part reads and what it makes.
class RegionWriter {
 public:
  RegionWriter(const GraphIndex& index, const Network& network,
               const ValueLocateResult& located, const OpSet& operators)
      : graph_(index.graph()),
        index_(index),
        network_(network),
        located_(located),
        operators_(operators),
        copies_(network.data().values.size(), kNoValue) {}

  absl::StatusOr<SourceRegion> Write(EntryId entry,
                                     absl::Span<const PartInput> inputs) {
    const LocatedEntry& head = located_.entries[Index(entry)];
    if (head.tensors.empty()) {
      return absl::NotFoundError("it is not known which tensor it should hold");
    }
    const ValueId expected = head.tensors[0].value;
    const Layout& layout = head.tensors[0].layout;
    made_ = Network(index_.KeyOf(index_.NodeOf(entry)));
    for (const auto& [domain, version] : network_.data().opsets) {
      NODEWISE_RETURN_IF_ERROR(made_.SetOpset(domain, version));
    }
    NODEWISE_RETURN_IF_ERROR(AddInputs(inputs));
    NODEWISE_RETURN_IF_ERROR(Make(expected));
    const ValueId own = copies_[Index(expected)];
    SourceRegion region;
    region.in_own_layout = made_;
    NODEWISE_RETURN_IF_ERROR(region.in_own_layout.SetOutputs({own}));
    const GraphEntry& type = graph_.entry(entry);
    region.clean_distance =
        CleanDistance(network_.value(expected).type.dtype, type.dtype);
    NODEWISE_ASSIGN_OR_RETURN(
        ValueId output, AddLayout(layout, own, type.shape, operators_, &made_));
    // Blocks are a layout of an output, another shape or order is none.
    const bool is_in_blocks = layout.is_usual() && !layout.is_same_order();
    if (!is_in_blocks && layout.other_shape.empty()) {
      region.in_own_layout = made_;
      NODEWISE_RETURN_IF_ERROR(region.in_own_layout.SetOutputs({output}));
    }
    NODEWISE_ASSIGN_OR_RETURN(output, Cast(output, type.dtype));
    NODEWISE_RETURN_IF_ERROR(made_.SetOutputs({output}));
    if (!layout.paddings.empty()) {
      for (const int64_t place : PlacesOf(layout)) {
        region.is_padding.push_back(place == kPaddingPlace);
      }
    }
    region.region.outputs = {
        {type.dtype, Shape(type.shape.begin(), type.shape.end())}};
    region.region.covers = std::move(covers_);
    region.region.is_constant = std::move(is_constant_);
    region.region.network = std::move(made_);
    return region;
  }

 private:
  absl::Status AddInputs(absl::Span<const PartInput> inputs) {
    for (const PartInput& input : inputs) {
      const GraphEntry& type = graph_.entry(input.entry);
      NODEWISE_ASSIGN_OR_RETURN(
          const ValueId compiled,
          made_.AddInput(input.name, {type.dtype, Shape(type.shape.begin(),
                                                        type.shape.end())}));
      const LocatedEntry& held = located_.entries[Index(input.entry)];
      is_constant_.push_back(held.state == EntryState::kConstant);
      for (const HeldTensor& tensor : held.tensors) {
        given_.emplace(tensor.value, Given{compiled, tensor.layout});
      }
    }
    return absl::OkStatus();
  }

  // Adds the operations that make the value of what is given.
  absl::Status Make(ValueId id) {
    std::set<OperationId> needed;
    std::vector<ValueId> waiting = {id};
    std::set<ValueId> seen;
    while (!waiting.empty()) {
      const NetworkValue& next = network_.value(waiting.back());
      waiting.pop_back();
      if (!seen.insert(next.id).second) continue;
      if (next.kind != NetworkValue::Kind::kOutput || given_.count(next.id)) {
        NODEWISE_RETURN_IF_ERROR(AddSource(next));
        continue;
      }
      needed.insert(next.producer);
      for (const ValueId input : network_.operation(next.producer).inputs) {
        if (input != kNoValue) waiting.push_back(input);
      }
    }
    for (const OperationId operation : network_.order()) {
      if (needed.count(operation) == 0) continue;
      NODEWISE_RETURN_IF_ERROR(Copy(network_.operation(operation)));
    }
    return absl::OkStatus();
  }

  absl::Status AddSource(const NetworkValue& value) {
    ValueId& copy = copies_[Index(value.id)];
    if (value.kind == NetworkValue::Kind::kConstant) {
      NODEWISE_ASSIGN_OR_RETURN(copy,
                                made_.AddConstant(value.name, value.data));
      return absl::OkStatus();
    }
    const auto given = given_.find(value.id);
    const auto sizes = value.type.sizes();
    if (given == given_.end()) {
      return absl::NotFoundError(
          fmt::format("the model makes it of {}, which the node does not read",
                      value.name));
    }
    if (!sizes.has_value()) {
      return absl::UnimplementedError(
          fmt::format("the size of {} depends on the inputs", value.name));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        copy, AddLayoutUndone(given->second.layout, given->second.compiled,
                              *sizes, operators_, &made_));
    NODEWISE_ASSIGN_OR_RETURN(copy, Cast(copy, value.type.dtype));
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Cast(ValueId id, DLDataType dtype) {
    const DLDataType now = made_.value(id).type.dtype;
    if (now == dtype) return id;
    // Quantised numbers are the same numbers in another type.
    if (IsFloat(now) != IsFloat(dtype)) {
      return absl::UnimplementedError(
          "the node has integers for floats of the model, or floats for "
          "integers");
    }
    return made_.Add(operators_, ops::Cast{dtype}, {id});
  }

  absl::Status Copy(const Operation& operation) {
    NewOperation added;
    added.attrs = operation.attrs;
    added.name = operation.name;
    added.origin = operation.origin;
    for (const ValueId input : operation.inputs) {
      added.inputs.push_back(input == kNoValue ? kNoValue
                                               : copies_[Index(input)]);
    }
    for (const ValueId output : operation.outputs) {
      const bool is_wanted = output != kNoValue && !given_.count(output);
      // A value that is given already has another name here than in the
      // network.
      added.outputs.push_back(output == kNoValue ? ""
                              : is_wanted        ? network_.value(output).name
                                                 : network_.value(output).name +
                                                "_made_again");
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId made,
                              made_.AddOperation(std::move(added)));
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId output = operation.outputs[i];
      if (output == kNoValue || given_.count(output)) continue;
      copies_[Index(output)] = made_.operation(made).outputs[i];
    }
    covers_.push_back(operation.name);
    return absl::OkStatus();
  }

  struct Given {
    ValueId compiled = kNoValue;  // An input of the part.
    Layout layout;
  };

  const Graph& graph_;
  const GraphIndex& index_;
  const Network& network_;
  const ValueLocateResult& located_;
  const OpSet& operators_;
  std::map<ValueId, Given> given_;  // By value of the network.
  std::vector<ValueId> copies_;     // By value of the network.
  std::vector<bool> is_constant_;
  std::vector<std::string> covers_;
  Network made_;
};

}  // namespace

absl::StatusOr<CompiledPart> FindPart(const GraphIndex& index,
                                      const ValueLocateResult& located,
                                      EntryId entry) {
  const Graph& graph = index.graph();
  const auto is_inside = [&](EntryId id) {
    const LocatedEntry& one = located.entries[Index(id)];
    return one.state != EntryState::kConstant && one.tensors.empty() &&
           graph.IsFunction(index.NodeOf(id));
  };
  std::set<NodeId> nodes = {index.NodeOf(entry)};
  std::vector<NodeId> waiting = {index.NodeOf(entry)};
  while (!waiting.empty()) {
    const NodeId node = waiting.back();
    waiting.pop_back();
    for (const EntryRef& ref : graph.node(node).inputs) {
      const EntryId read = graph.EntryOf(ref);
      if (!is_inside(read)) continue;
      if (nodes.insert(NodeId{ref.node}).second) {
        waiting.push_back(NodeId{ref.node});
      }
    }
    if (nodes.size() > kMostNodes) {
      return absl::UnimplementedError(fmt::format(
          "more than {} nodes before it hold no tensor of the model",
          kMostNodes));
    }
  }
  CompiledPart part;
  part.nodes.assign(nodes.begin(), nodes.end());
  for (const NodeId node : part.nodes) {
    for (const EntryRef& ref : graph.node(node).inputs) {
      const EntryId read = graph.EntryOf(ref);
      if (!is_inside(read) && std::find(part.reads.begin(), part.reads.end(),
                                        read) == part.reads.end()) {
        part.reads.push_back(read);
      }
    }
  }
  return part;
}

absl::StatusOr<SourceRegion> RegionOfPart(const GraphIndex& index,
                                          const Network& network,
                                          const ValueLocateResult& located,
                                          EntryId entry,
                                          absl::Span<const PartInput> inputs,
                                          const OpSet& operators) {
  return RegionWriter(index, network, located, operators).Write(entry, inputs);
}

}  // namespace nodewise
