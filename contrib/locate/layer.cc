#include "nodewise/locate/layer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

template <typename Params>
std::string ParamName(const Params& params, size_t slot) {
  if (params.empty()) return fmt::format("{}", slot);
  const size_t last = params.size() - 1;
  if (slot < last || params[last].kind != Param::Kind::kVariadic) {
    return slot <= last ? std::string(params[slot].name)
                        : fmt::format("{}", slot);
  }
  // A variadic parameter has one name for all.
  if (slot == last) return std::string(params[last].name);
  return fmt::format("{}_{}", params[last].name, slot - last);
}

// Names the values of a region by the operators that read or make them.
class RoleNames {
 public:
  explicit RoleNames(const Region& region)
      : network_(region.network), operations_(SourceOperations(region)) {}

  std::string OfInput(ValueId id) const {
    for (const OperationId user : operations_) {
      const Operation& operation = network_.operation(user);
      for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
        if (operation.inputs[slot] == kNoValue ||
            Origin(operation.inputs[slot]) != id) {
          continue;
        }
        return ParamName(operation.def().inputs, slot);
      }
    }
    return "input";
  }

  std::string OfOutput(ValueId id) const {
    const ValueId made = Origin(id);
    for (const OperationId maker : operations_) {
      const Operation& operation = network_.operation(maker);
      for (size_t slot = 0; slot < operation.outputs.size(); ++slot) {
        if (operation.outputs[slot] != made) continue;
        return ParamName(operation.def().outputs, slot);
      }
    }
    return "output";
  }

  std::string Kind() const {
    std::string kind;
    for (const OperationId id : operations_) {
      kind += kind.empty() ? "" : "+";
      kind += network_.operation(id).kind();
    }
    return kind;
  }

 private:
  // Goes back through what only says in which order a tensor lies.
  ValueId Origin(ValueId id) const {
    while (network_.value(id).kind == NetworkValue::Kind::kOutput) {
      const OperationId maker = network_.value(id).producer;
      if (std::find(operations_.begin(), operations_.end(), maker) !=
          operations_.end()) {
        break;
      }
      id = network_.operation(maker).inputs[0];
    }
    return id;
  }

  const Network& network_;
  const std::vector<OperationId> operations_;
};

void AddName(std::string name, std::vector<std::string>* names) {
  const auto is_taken = [&](const std::string& one) {
    return std::find(names->begin(), names->end(), one) != names->end();
  };
  std::string free = name;
  for (int number = 2; is_taken(free); ++number) {
    free = fmt::format("{}_{}", name, number);
  }
  names->push_back(std::move(free));
}

}  // namespace

bool IsLayer(const Graph& graph, NodeId node) {
  return graph.IsFunction(node) && graph.node(node).function != kNopFunction;
}

absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId node,
                                    const OpSet& ops) {
  std::vector<EntryId> entries;
  for (const EntryRef& ref : graph.node(node).inputs) {
    entries.push_back(graph.EntryOf(ref));
  }
  for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
    entries.push_back(graph.EntryOf(node, slot));
  }
  // Only the types count.
  std::vector<DLTensor> tensors(entries.size());
  std::vector<const DLTensor*> arguments;
  for (size_t i = 0; i < entries.size(); ++i) {
    const GraphEntry& entry = graph.entry(entries[i]);
    DLTensor& tensor = tensors[i];
    tensor.device = kCpu;
    tensor.ndim = static_cast<int32_t>(entry.shape.size());
    tensor.shape = const_cast<int64_t*>(entry.shape.data());
    tensor.dtype = entry.dtype;
    arguments.push_back(&tensor);
  }
  const GraphNode& one = graph.node(node);
  return RegionOf({one.function, one.attrs, arguments, graph.OutputsOf(node)},
                  ops);
}

absl::StatusOr<Layer> DescribeLayer(const GraphIndex& index, NodeId node,
                                    const OpSet& ops) {
  const Graph& graph = index.graph();
  auto region = RegionOfNode(graph, node, ops);
  if (!region.ok()) return At(index.TitleOf(node), region.status());
  const RoleNames roles(*region);
  Layer layer{node, index.KeyOf(node), roles.Kind(), {}, {}, region->covers};
  std::set<EntryId> seen;
  const auto inputs = region->network.inputs();
  const std::vector<EntryRef>& refs = graph.node(node).inputs;
  for (size_t slot = 0; slot < refs.size(); ++slot) {
    if (!seen.insert(graph.EntryOf(refs[slot])).second) continue;
    AddName(roles.OfInput(inputs[slot]), &layer.inputs);
  }
  for (const ValueId output : region->network.outputs()) {
    AddName(roles.OfOutput(output), &layer.outputs);
  }
  return layer;
}

}  // namespace nodewise
