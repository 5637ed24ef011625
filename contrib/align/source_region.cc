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
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/cast.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A tensor that the part has, in the layout that it has there.
struct Given {
  ValueId compiled = kNoValue;  // An input of the part.
  Layout layout;
};

// Writes the network between what a part reads and what it makes.
struct RegionWriter {
  const GraphIndex& index;
  const Network& network;
  const ValueLocateResult& located;
  const OpSet& operators;
  const Graph& graph = index.graph();
  std::map<ValueId, Given> read = {};  // By value of the network.
  std::vector<ValueId> copies =        // By value of the network.
      std::vector<ValueId>(network.data().values.size(), kNoValue);
  std::vector<bool> is_constant = {};
  std::vector<std::string> covers = {};
  Network written = Network();

  absl::StatusOr<SourceRegion> Write(EntryId entry,
                                     absl::Span<const PartInput> inputs) {
    const LocatedEntry& head = located.entries[Index(entry)];
    if (head.tensors.empty()) {
      return NotFound("it is not known which tensor it should hold");
    }
    const ValueId expected = head.tensors[0].value;
    const Layout& layout = head.tensors[0].layout;
    written = Network(index.KeyOf(index.NodeOf(entry)));
    for (const auto& [domain, version] : network.data().opsets) {
      NODEWISE_RETURN_IF_ERROR(written.SetOpset(domain, version));
    }
    NODEWISE_RETURN_IF_ERROR(AddInputs(inputs));
    NODEWISE_RETURN_IF_ERROR(Make(expected));
    const ValueId own = copies[Index(expected)];
    SourceRegion region;
    region.in_own_layout = written;
    NODEWISE_RETURN_IF_ERROR(region.in_own_layout.SetOutputs({own}));
    const GraphEntry& type = graph.entry(entry);
    // Alone, the part reads exact numbers, so that the types decide how far it
    // may be off.
    region.clean_distance =
        CleanDistance(network.value(expected).type.dtype, type.dtype);
    NODEWISE_ASSIGN_OR_RETURN(ValueId output, AddLayout(layout, own, type.shape,
                                                        operators, &written));
    // Blocks are a layout that an output may have. Another shape or order is a
    // part of what the entry should make, and stays in the network.
    const bool is_in_blocks = layout.is_usual() && !layout.is_same_order();
    if (!is_in_blocks && layout.other_shape.empty()) {
      region.in_own_layout = written;
      NODEWISE_RETURN_IF_ERROR(region.in_own_layout.SetOutputs({output}));
    }
    NODEWISE_ASSIGN_OR_RETURN(output, Cast(output, type.dtype));
    NODEWISE_RETURN_IF_ERROR(written.SetOutputs({output}));
    if (!layout.paddings.empty()) {
      for (const int64_t place : PlacesOf(layout)) {
        region.is_padding.push_back(place == kPaddingPlace);
      }
    }
    region.region.outputs = {TypeOf(type)};
    region.region.covers = std::move(covers);
    region.region.is_constant = std::move(is_constant);
    region.region.network = std::move(written);
    return region;
  }

  absl::Status AddInputs(absl::Span<const PartInput> inputs) {
    for (const PartInput& input : inputs) {
      NODEWISE_ASSIGN_OR_RETURN(
          const ValueId compiled,
          written.AddInput(input.name, TypeOf(graph.entry(input.entry))));
      const LocatedEntry& held = located.entries[Index(input.entry)];
      is_constant.push_back(held.state == EntryState::kConstant);
      for (const HeldTensor& tensor : held.tensors) {
        read.emplace(tensor.value, Given{compiled, tensor.layout});
      }
    }
    return absl::OkStatus();
  }

  // Adds the operations that make the value of what is given.
  absl::Status Make(ValueId id) {
    std::set<OperationId> needed;
    absl::Status status;
    WalkBack(network, {id}, [&](const NetworkValue& next) {
      if (!status.ok()) return false;
      if (next.kind != NetworkValue::Kind::kOutput || read.count(next.id)) {
        status = AddSource(next);
        return false;
      }
      needed.insert(next.producer);
      return true;
    });
    NODEWISE_RETURN_IF_ERROR(status);
    for (const OperationId operation : InOrder(network, needed)) {
      NODEWISE_RETURN_IF_ERROR(Copy(network.operation(operation)));
    }
    return absl::OkStatus();
  }

  absl::Status AddSource(const NetworkValue& value) {
    ValueId& copy = copies[Index(value.id)];
    if (value.kind == NetworkValue::Kind::kConstant) {
      NODEWISE_ASSIGN_OR_RETURN(copy,
                                written.AddConstant(value.name, value.data));
      return absl::OkStatus();
    }
    const auto given = read.find(value.id);
    const auto sizes = value.type.sizes();
    if (given == read.end()) {
      return NotFound("the model makes it of {}, which the node does not read",
                      value.name);
    }
    if (!sizes.has_value()) {
      return Unimplemented("the size of {} depends on the inputs", value.name);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        copy, AddLayoutUndone(given->second.layout, given->second.compiled,
                              *sizes, operators, &written));
    NODEWISE_ASSIGN_OR_RETURN(copy, Cast(copy, value.type.dtype));
    return absl::OkStatus();
  }

  // A compiler may calculate in a shorter type than the network has, and the
  // case has the node's types at its ends.
  absl::StatusOr<ValueId> Cast(ValueId id, DLDataType dtype) {
    const DLDataType now = written.value(id).type.dtype;
    if (now == dtype) return id;
    // Quantised numbers are the same numbers in another type.
    if (IsFloat(now) != IsFloat(dtype)) {
      return Unimplemented(
          "the node has integers for floats of the model, or floats for "
          "integers");
    }
    return written.Add(operators, ops::Cast{dtype}, {id});
  }

  absl::Status Copy(const Operation& operation) {
    NewOperation added;
    added.attrs = operation.attrs;
    added.name = operation.name;
    added.origin = operation.origin;
    for (const ValueId input : operation.inputs) {
      added.inputs.push_back(input == kNoValue ? kNoValue
                                               : copies[Index(input)]);
    }
    for (const ValueId output : operation.outputs) {
      added.outputs.emplace_back();
      if (output == kNoValue) continue;
      added.outputs.back() = network.value(output).name;
      // A value that is given already has another name here than in the
      // network.
      if (read.count(output)) added.outputs.back() += "_made_again";
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId made,
                              written.AddOperation(std::move(added)));
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId output = operation.outputs[i];
      if (output == kNoValue || read.count(output)) continue;
      copies[Index(output)] = written.operation(made).outputs[i];
    }
    covers.push_back(operation.name);
    return absl::OkStatus();
  }
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
    return Unimplemented(
        "more than {} nodes before it hold no tensor of the model",
        kMostNodesOfOperation);
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
  return RegionWriter{index, network, located, operators}.Write(entry, inputs);
}

}  // namespace nodewise
