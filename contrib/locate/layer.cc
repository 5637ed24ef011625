#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/built_in_functions.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

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
      if (std::ranges::find(operations_, maker) != operations_.end()) {
        break;
      }
      id = network_.operation(maker).inputs[0];
    }
    return id;
  }

  const Network& network_;
  const std::vector<OperationId> operations_;
};

void AddName(std::string name, const std::vector<std::string>& others,
             std::vector<std::string>* names) {
  const auto is_in = [](const std::vector<std::string>& all,
                        const std::string& one) {
    return std::ranges::find(all, one) != all.end();
  };
  const auto is_taken = [&](const std::string& one) {
    return is_in(*names, one) || is_in(others, one);
  };
  std::string free = name;
  for (int number = 2; is_taken(free); ++number) {
    free = fmt::format("{}_{}", name, number);
  }
  names->push_back(std::move(free));
}

// Gives a value a name; another one that has it gets a longer one.
absl::Status GiveName(ValueId id, const std::string& name, Network* network) {
  const auto other = network->FindValue(name);
  if (other.ok() && *other == id) return absl::OkStatus();
  if (other.ok()) {
    std::string free = name;
    do {
      free += '_';
    } while (network->HasValue(free));
    NODEWISE_RETURN_IF_ERROR(network->Rename(*other, std::move(free)));
  }
  return network->Rename(id, name);
}

// Makes one input of those that get the same tensor. Returns those that are
// left, by entry.
absl::StatusOr<std::vector<ValueId>> JoinInputs(const Graph& graph, NodeId node,
                                                Network* network) {
  const std::vector<ValueId> slots(network->inputs().begin(),
                                   network->inputs().end());
  std::vector<EntryId> entries;
  std::vector<ValueId> left;
  const std::vector<EntryRef>& refs = graph.node(node).inputs;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const EntryId entry = graph.EntryOf(refs[slot]);
    const auto found = std::ranges::find(entries, entry);
    if (found == entries.end()) {
      entries.push_back(entry);
      left.push_back(slots[slot]);
      continue;
    }
    const ValueId first = left[static_cast<size_t>(found - entries.begin())];
    NODEWISE_RETURN_IF_ERROR(network->ReplaceUses({slots[slot]}, {first}));
    NODEWISE_RETURN_IF_ERROR(network->RemoveInput(slots[slot]));
  }
  return left;
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

absl::StatusOr<Network> NetworkOfLayer(const Graph& graph, const Layer& layer,
                                       const OpSet& ops) {
  NODEWISE_ASSIGN_OR_RETURN(Region region,
                            RegionOfNode(graph, layer.node, ops));
  Network network = std::move(region.network);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<ValueId> inputs,
                            JoinInputs(graph, layer.node, &network));
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(GiveName(inputs[i], layer.inputs[i], &network));
  }
  const std::vector<ValueId> outputs(network.outputs().begin(),
                                     network.outputs().end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(GiveName(outputs[i], layer.outputs[i], &network));
  }
  return network;
}

const ImportedCall* CallOf(absl::Span<const ImportedCall> calls,
                           const std::string& name) {
  for (const ImportedCall& call : calls) {
    const size_t size = call.node.size();
    if (name.size() > size && name[size] == '/' &&
        name.compare(0, size, call.node) == 0) {
      return &call;
    }
  }
  return nullptr;
}

absl::Status NameByCall(const Graph& graph,
                        absl::Span<const ImportedCall> calls, const OpSet& ops,
                        Layer* layer) {
  if (calls.empty() || layer->covers.empty()) return absl::OkStatus();
  const ImportedCall* const call = CallOf(calls, layer->covers[0]);
  for (const std::string& covered : layer->covers) {
    if (call == nullptr || CallOf(calls, covered) != call) {
      return absl::OkStatus();
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfNode(graph, layer->node, ops));
  const auto role_of = [&](ValueId id,
                           const std::vector<ImportedCall::Role>& roles,
                           const std::string& usual) {
    const std::string& name = region.network.value(id).name;
    for (const ImportedCall::Role& role : roles) {
      // A network in float16 has other values in their places.
      if (name == role.value || name == role.value + "_float16") {
        return role.role;
      }
    }
    return usual;
  };
  std::vector<std::string> inputs, outputs;
  std::set<EntryId> seen;
  const std::vector<EntryRef>& refs = graph.node(layer->node).inputs;
  for (size_t slot = 0; slot < refs.size(); ++slot) {
    if (!seen.insert(graph.EntryOf(refs[slot])).second) continue;
    AddName(role_of(region.network.inputs()[slot], call->inputs,
                    layer->inputs[inputs.size()]),
            {}, &inputs);
  }
  for (const ValueId output : region.network.outputs()) {
    AddName(role_of(output, call->outputs, layer->outputs[outputs.size()]),
            inputs, &outputs);
  }
  layer->name = call->node;
  layer->kind = call->kind;
  layer->inputs = std::move(inputs);
  layer->outputs = std::move(outputs);
  return absl::OkStatus();
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
    AddName(roles.OfInput(inputs[slot]), {}, &layer.inputs);
  }
  for (const ValueId output : region->network.outputs()) {
    AddName(roles.OfOutput(output), layer.inputs, &layer.outputs);
  }
  return layer;
}

namespace {

struct BackendRow {
  const char* name;
  Backend backend;
};

// CPU is what users of Glow call the one that is fast on CPUs.
constexpr BackendRow kBackends[] = {
    {"Interpreter", Backend::kReference},
    {"reference", Backend::kReference},
    {"OneDNN", Backend::kFastest},
    {"CPU", Backend::kFastest},
};

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

}  // namespace

absl::StatusOr<LayerModule> MakeLayerModule(const Network& network,
                                            std::string name, bool fuse,
                                            Backend layouts,
                                            std::vector<ImportedCall> calls) {
  LowerOptions options = LoweringFor(AllOperators(), layouts);
  options.fuse = fuse;
  if (!fuse) calls.clear();
  if (!calls.empty()) {
    options.is_observed = [&calls](const Network& all, ValueId id) {
      return CallOf(calls, all.value(id).name) == nullptr;
    };
  }
  NODEWISE_ASSIGN_OR_RETURN(Lowered lowered,
                            Lower(network, name + ": graph JSON", options));
  return LayerModule{std::move(name),
                     std::move(lowered.graph),
                     {std::move(lowered.params)},
                     {},
                     std::make_shared<const Network>(network),
                     std::move(calls)};
}

LayerBackend::LayerBackend(std::string name) : name_(std::move(name)) {}

LayerBackend::LayerBackend(std::string name, Ref<Library> functions)
    : name_(std::move(name)), functions_(std::move(functions)) {}

LayerBackend::LayerBackend(std::string name, ForeignCommand program)
    : name_(std::move(name)), program_(std::move(program)) {}

absl::StatusOr<Ref<Library>> LayerBackend::Functions() const {
  if (functions_ || program_.has_value()) return functions_;
  for (const BackendRow& row : kBackends) {
    if (LowerCase(row.name) != LowerCase(name_)) continue;
    return Ref<Library>(BuiltInFunctions(AllOperators(), row.backend));
  }
  const std::vector<std::string> names = LayerBackendNames();
  return absl::NotFoundError(
      fmt::format("backend {}: there is none of that name, expected one of "
                  "{}{}",
                  Printable(name_), ListOf(names), DidYouMean(name_, names)));
}

std::vector<std::string> LayerBackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

}  // namespace nodewise
