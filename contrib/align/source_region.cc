// The part of the network that stands for nodes of the compiled graph, written
// as a network whose inputs and output lie as the graph has them. It is made
// from its end: what the entry should hold is followed back to tensors that the
// part reads, these are put in the network's order by operations at the
// beginning, and the result in the entry's order by others at the end.

#include "nodewise/align/source_region.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/layout_operations.h"
#include "contrib/align/network_walk.h"
#include "contrib/align/precision.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

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
    // Blocks are a layout that an output may have. Another shape or order is a
    // part of what the entry should make, and stays in the network.
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
    region.region.outputs = {TypeOf(type)};
    region.region.covers = std::move(covers_);
    region.region.is_constant = std::move(is_constant_);
    region.region.network = std::move(made_);
    return region;
  }

 private:
  absl::Status AddInputs(absl::Span<const PartInput> inputs) {
    for (const PartInput& input : inputs) {
      NODEWISE_ASSIGN_OR_RETURN(
          const ValueId compiled,
          made_.AddInput(input.name, TypeOf(graph_.entry(input.entry))));
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
    absl::Status status;
    WalkBack(network_, {id}, [&](const NetworkValue& next) {
      if (!status.ok()) return false;
      if (next.kind != NetworkValue::Kind::kOutput || given_.count(next.id)) {
        status = AddSource(next);
        return false;
      }
      needed.insert(next.producer);
      return true;
    });
    NODEWISE_RETURN_IF_ERROR(status);
    for (const OperationId operation : InOrder(network_, needed)) {
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
      added.outputs.emplace_back();
      if (output == kNoValue) continue;
      added.outputs.back() = network_.value(output).name;
      // A value that is given already has another name here than in the
      // network.
      if (given_.count(output)) added.outputs.back() += "_made_again";
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
  CompiledPart part;
  part.nodes = NodesBefore(index, index.NodeOf(entry), kMostNodesOfOperation,
                           [&](EntryId read, const std::vector<NodeId>&) {
                             return is_inside(read);
                           });
  if (part.nodes.size() > kMostNodesOfOperation) {
    return absl::UnimplementedError(
        fmt::format("more than {} nodes before it hold no tensor of the model",
                    kMostNodesOfOperation));
  }
  std::ranges::sort(part.nodes);
  for (const NodeId node : part.nodes) {
    for (const EntryId read : ReadsOf(graph, node)) {
      if (!is_inside(read) && !Contains(part.reads, read)) {
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
