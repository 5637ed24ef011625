#include "nodewise/graph/graph_inputs.h"

#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/dump_key.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {

// Views of the graph's own names; the graph outlives this.
ParamNames::ParamNames(const Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.arg_nodes.size(); ++i) {
    by_name_[graph.nodes[graph.arg_nodes[i]].name].push_back(i);
    by_node_[graph.arg_nodes[i]] = i;
  }
}

ParamNames::Meaning ParamNames::Find(std::string_view name,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype) const {
  // A name of the graph's wins: a node may be called like a key of a dump.
  const auto named = by_name_.find(name);
  if (named != by_name_.end()) {
    return {Kind::kInput, ChooseParam(graph_, named->second, shape, dtype)};
  }
  const auto node = NodeOfDumpKey(graph_, name);
  if (!node.has_value()) return {};
  const auto dumped = by_node_.find(Index(*node));
  if (dumped == by_node_.end()) return {Kind::kComputed};
  return {Kind::kInput, dumped->second};
}

size_t ChooseParam(const Graph& graph, absl::Span<const size_t> inputs,
                   absl::Span<const int64_t> shape, DLDataType dtype) {
  // Relay calls its constants p0, p1, ... even where the user has an input of
  // that name: the type tells them apart, and if it does not, the last is the
  // constant, as TVM takes it.
  size_t chosen = inputs.back();
  for (const size_t input : inputs) {
    const NodeId node{graph.arg_nodes[input]};
    const GraphEntry& entry = graph.entry(graph.EntryOf(node, 0));
    if (IsSameType(dtype, entry.dtype) &&
        shape == absl::MakeConstSpan(entry.shape)) {
      chosen = input;
    }
  }
  return chosen;
}

namespace {

// TVM 0.8 generates it where parameters are linked in; it takes a storage id.
constexpr char kLinkedParamFunction[] = "_lookup_linked_param";

using Names = std::unordered_set<std::string_view>;

// A set of all names: looking each key up in the list would take the square of
// the number of inputs.
Names NamesOf(absl::Span<const GraphInput> inputs) {
  Names names;
  for (const GraphInput& input : inputs) names.insert(input.name);
  return names;
}

// The key ends in the node's number, which is repeated while another input has
// that very name.
std::string KeyOf(const GraphInput& input, const Names& names) {
  std::string key(input.name);
  do {
    key += fmt::format("#{}", Index(input.node));
  } while (names.contains(key));
  return key;
}

// Parameters are left out of the list: they are too many, and seldom meant.
std::string OneOfThe(absl::Span<const GraphInput> inputs) {
  std::vector<std::string> names;
  for (const GraphInput& input : inputs) {
    if (!input.is_param) names.emplace_back(input.name);
  }
  return names.empty() ? "" : ", expected one of " + ListOf(names);
}

const GraphEntry& EntryOf(const Graph& graph, const GraphInput& input) {
  return graph.entry(graph.EntryOf(input.node, 0));
}

}  // namespace

// An input that nothing reads need not be set, so it is worth knowing.
std::vector<GraphInput> InputsOf(const Graph& graph) {
  std::vector<bool> is_read(graph.nodes.size());
  for (const GraphNode& node : graph.nodes) {
    for (const EntryRef& ref : node.inputs) is_read[ref.node] = true;
  }
  for (const EntryRef& ref : graph.heads) is_read[ref.node] = true;
  std::vector<GraphInput> inputs;
  inputs.reserve(graph.arg_nodes.size());
  for (const uint32_t node : graph.arg_nodes) {
    inputs.push_back({graph.nodes[node].name, NodeId{node}, is_read[node]});
  }
  return inputs;
}

// Where several have one name, the one that is not a parameter is meant: users
// set inputs, and parameters come from a file.
absl::StatusOr<size_t> FindInput(absl::Span<const GraphInput> inputs,
                                 std::string_view name) {
  std::vector<size_t> all;
  std::vector<size_t> free;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name != name) continue;
    all.push_back(i);
    if (!inputs[i].is_param) free.push_back(i);
  }
  if (all.size() == 1) return all[0];
  if (free.size() == 1) return free[0];
  const Names known = NamesOf(inputs);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string key = KeyOf(inputs[i], known);
    if (key == name) return i;
    names.push_back(all.empty() ? std::string(inputs[i].name) : std::move(key));
  }
  if (all.empty()) {
    return NotFound("input {}: the graph has no such input{}{}", name,
                    OneOfThe(inputs), DidYouMean(name, names));
  }
  std::vector<std::string> same_name;
  same_name.reserve(all.size());
  for (const size_t input : all) same_name.push_back(names[input]);
  return InvalidArgument(
      "input {}: {} inputs have that name, expected one of {}", name,
      all.size(), ListOf(same_name));
}

std::string KeyOfInput(absl::Span<const GraphInput> inputs, size_t input) {
  return KeyOf(inputs[input], NamesOf(inputs));
}

// Computed tensors, as a dump holds them, are neither inputs nor unknown.
std::vector<std::string> MarkParams(const Graph& graph, const Params& params,
                                    std::vector<GraphInput>* inputs) {
  const ParamNames names(graph);
  std::vector<std::string> unknown;
  for (const NamedTensor& param : params.tensors) {
    const ParamNames::Meaning meaning =
        names.Find(param.name, param.tensor.shape(), param.tensor.dtype());
    if (meaning.kind == ParamNames::Kind::kInput) {
      (*inputs)[meaning.input].is_param = true;
    } else if (meaning.kind == ParamNames::Kind::kUnknown) {
      unknown.push_back(param.name);
    }
  }
  return unknown;
}

// Most libraries have no such function, and then there is nothing to ask.
absl::StatusOr<LinkedData> FindLinkedData(Library& library,
                                          int64_t storage_id) {
  LinkedData found;
  NODEWISE_ASSIGN_OR_RETURN(found.lookup, library.Find(kLinkedParamFunction));
  if (!found.lookup) return found;
  NODEWISE_ASSIGN_OR_RETURN(const Value value, found.lookup.Call(storage_id));
  void* const* data = value.Get<void*>();
  if (data != nullptr) found.data = *data;
  return found;
}

// A library without the function has no linked data at all.
absl::Status MarkLinked(const Graph& graph, Library& library,
                        std::vector<GraphInput>* inputs) {
  for (GraphInput& input : *inputs) {
    NODEWISE_ASSIGN_OR_RETURN(
        const LinkedData linked,
        FindLinkedData(library, EntryOf(graph, input).storage_id));
    if (!linked.lookup) return absl::OkStatus();
    if (linked.data != nullptr) input.is_linked = input.is_param = true;
  }
  return absl::OkStatus();
}

absl::Status CheckSettable(const GraphInput& input) {
  if (!input.is_linked) return absl::OkStatus();
  return FailedPrecondition(
      "input {}: its data is linked into the library and cannot be set",
      input.name);
}

}  // namespace nodewise
