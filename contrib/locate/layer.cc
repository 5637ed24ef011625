#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Parameters that the operator's definition does not name are called by their
// numbers.
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

// Names the values of a region by the operators that read or make them. A value
// that several operators read is called as the first of them calls it.
struct RoleNames {
  const Region& region;
  const Network& network = region.network;
  const std::vector<OperationId> operations = SourceOperations(region);

  std::string InputRole(ValueId id) const {
    for (const OperationId user : operations) {
      const Operation& operation = network.operation(user);
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

  std::string OutputRole(ValueId id) const {
    const ValueId made = Origin(id);
    for (const OperationId maker : operations) {
      const Operation& operation = network.operation(maker);
      const auto output = std::ranges::find(operation.outputs, made);
      if (output == operation.outputs.end()) continue;
      return ParamName(operation.def().outputs,
                       static_cast<size_t>(output - operation.outputs.begin()));
    }
    return "output";
  }

  std::string Kind() const {
    std::string kind;
    for (const OperationId id : operations) {
      kind += kind.empty() ? "" : "+";
      kind += network.operation(id).kind();
    }
    return kind;
  }

  // Goes back through operations that only say in which order a tensor lies.
  ValueId Origin(ValueId id) const {
    while (network.value(id).kind == NetworkValue::Kind::kOutput) {
      const OperationId maker = network.value(id).producer;
      if (std::ranges::find(operations, maker) != operations.end()) break;
      id = network.operation(maker).inputs[0];
    }
    return id;
  }
};

// Adds a name; one that is taken already, here or among the others, gets the
// first number that makes it free.
void AddName(const std::string& name, const std::vector<std::string>& others,
             std::vector<std::string>* names) {
  const auto is_taken = [&](const std::string& one) {
    return std::ranges::find(*names, one) != names->end() ||
           std::ranges::find(others, one) != others.end();
  };
  std::string free = name;
  // The first one of a name has no number.
  for (int number = 2; is_taken(free); ++number) {
    free = fmt::format("{}_{}", name, number);
  }
  names->push_back(std::move(free));
}

// Names what a layer reads, each entry once, and then what it makes. Both
// functions get a value of the region and how many were named before it.
template <typename NamesInput, typename NamesOutput>
void NameRoles(const Graph& graph, const Region& region, NamesInput names_input,
               NamesOutput names_output, Layer* layer) {
  // All names are collected first, as the functions may read the old ones.
  std::vector<std::string> inputs, outputs;
  std::set<EntryId> seen;
  const std::vector<EntryRef>& refs = graph.node(layer->node).inputs;
  for (size_t slot = 0; slot < refs.size(); ++slot) {
    if (!seen.insert(graph.EntryOf(refs[slot])).second) continue;
    AddName(names_input(region.network.inputs()[slot], inputs.size()), {},
            &inputs);
  }
  for (const ValueId output : region.network.outputs()) {
    AddName(names_output(output, outputs.size()), inputs, &outputs);
  }
  layer->inputs = std::move(inputs);
  layer->outputs = std::move(outputs);
}

absl::Status GiveName(ValueId id, const std::string& name, Network* network) {
  const auto other = network->FindValue(name);
  if (other.ok() && *other == id) return absl::OkStatus();
  if (other.ok()) {
    // The other value keeps its name as far as possible: only those of
    // the layer's own inputs and outputs are asked for.
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
  // Each slot of the node is an input of its region, though several may read
  // one tensor. Files of tensors that go with a layer have that tensor once.
  const std::vector<EntryId> entries = EntriesReadBy(graph, node);
  const std::vector<EntryRef>& refs = graph.node(node).inputs;
  std::vector<ValueId> left;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const auto at = static_cast<size_t>(
        std::ranges::find(entries, graph.EntryOf(refs[slot])) -
        entries.begin());
    if (at == left.size()) {
      left.push_back(slots[slot]);
      continue;
    }
    NODEWISE_RETURN_IF_ERROR(network->ReplaceUses({slots[slot]}, {left[at]}));
    NODEWISE_RETURN_IF_ERROR(network->RemoveInput(slots[slot]));
  }
  return left;
}

// Backends by the names that Glow's users know, beside our own.
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

bool IsLayer(const Graph& graph, NodeId node) {
  return graph.IsFunction(node) && graph.node(node).function != kNopFunction;
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
  const auto found = std::ranges::find_if(calls, [&](const ImportedCall& call) {
    return name.starts_with(call.node + '/');
  });
  return found == calls.end() ? nullptr : &*found;
}

absl::Status NameByCall(const Graph& graph,
                        absl::Span<const ImportedCall> calls, const OpSet& ops,
                        Layer* layer) {
  if (calls.empty() || layer->covers.empty()) return absl::OkStatus();
  // A layer that has operations of several calls is not any one of them.
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
  NameRoles(
      graph, region,
      [&](ValueId id, size_t i) {
        return role_of(id, call->inputs, layer->inputs[i]);
      },
      [&](ValueId id, size_t i) {
        return role_of(id, call->outputs, layer->outputs[i]);
      },
      layer);
  layer->name = call->node;
  layer->kind = call->kind;
  return absl::OkStatus();
}

absl::StatusOr<Layer> DescribeLayer(const GraphIndex& index, NodeId node,
                                    const OpSet& ops) {
  const Graph& graph = index.graph();
  auto region = RegionOfNode(graph, node, ops);
  if (!region.ok()) return At(index.TitleOf(node), region.status());
  const RoleNames roles{*region};
  Layer layer{node, index.KeyOf(node), roles.Kind(), {}, {}, region->covers};
  NameRoles(
      graph, *region, [&](ValueId id, size_t) { return roles.InputRole(id); },
      [&](ValueId id, size_t) { return roles.OutputRole(id); }, &layer);
  return layer;
}

absl::StatusOr<LayerModule> MakeLayerModule(const Network& network,
                                            std::string name, bool fuse,
                                            Backend layouts,
                                            std::vector<ImportedCall> calls) {
  // A value between two calls is observed, so that nothing is fused across
  // them; with no calls, what is fused is left to lowering.
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

absl::StatusOr<Ref<Library>> LayerBackend::Functions() const {
  // For a program this is null: it computes nothing node by node.
  if (functions_ || program_.has_value()) return functions_;
  for (const BackendRow& row : kBackends) {
    if (LowerCase(row.name) != LowerCase(name_)) continue;
    return Ref<Library>(BuiltInFunctions(AllOperators(), row.backend));
  }
  const std::vector<std::string> names = LayerBackendNames();
  return NotFound(
      "backend {}: there is none of that name, expected one of {}{}",
      Printable(name_), ListOf(names), DidYouMean(name_, names));
}

std::vector<std::string> LayerBackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

}  // namespace nodewise
