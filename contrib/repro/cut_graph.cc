#include "contrib/repro/cut_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/repro/case_of_nodes.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Names of files may have 255 bytes, and a role or a number is put around
// these.
constexpr size_t kLongestName = 60;

bool IsPlain(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// A variadic parameter stands for as many inputs as there are, which are told
// apart by their numbers.
template <typename Params>
std::string ParamName(const Params& params, size_t slot) {
  if (params.empty()) return "";
  const size_t last = params.size() - 1;
  if (slot >= last && params[last].kind == Param::Kind::kVariadic) {
    return fmt::format("{}_{}", params[last].name, slot - last);
  }
  return slot < params.size() ? std::string(params[slot].name) : "";
}

// A fused node computes several operations, of which the first that reads a
// tensor says what that is. Operations that a compiler has added to change a
// layout are not the network's own, and the search goes through them.
struct RoleFinder {
  const Region& region;
  const Network& network = region.network;
  const std::vector<OperationId> source = SourceOperations(region);

  // A Transpose that only says in which order a tensor lies is looked through.
  std::string RoleOfInput(ValueId id) const {
    for (const OperationId user : network.order()) {
      const Operation& operation = network.operation(user);
      for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
        if (operation.inputs[slot] != id) continue;
        if (IsSource(user) || operation.outputs.empty()) {
          return ParamName(operation.def().inputs, slot);
        }
        return RoleOfInput(operation.outputs[0]);
      }
    }
    return "";
  }

  // An output is looked for against the direction of the data, through the
  // first input of an operation that only changes a layout.
  std::string RoleOfOutput(ValueId id) const {
    const NetworkValue& value = network.value(id);
    if (value.kind != NetworkValue::Kind::kOutput) return "";
    const Operation& operation = network.operation(value.producer);
    if (IsSource(value.producer) || operation.inputs.empty() ||
        operation.inputs[0] == kNoValue) {
      return ParamName(operation.def().outputs, value.slot);
    }
    return RoleOfOutput(operation.inputs[0]);
  }

  bool IsSource(OperationId id) const {
    return std::ranges::count(source, id) > 0;
  }
};

// Operators may come from anywhere, so their names do, too.
void MakeRolesPlain(std::string_view otherwise,
                    std::vector<std::string>* roles) {
  std::map<std::string, int> uses;
  for (std::string& role : *roles) {
    role = role.empty() ? std::string(otherwise) : PlainName(role);
    // "B", "B_2", "B_3": an operator may read one parameter in several places
    // once it is fused.
    std::string unique = role;
    while (++uses[unique] > 1) {
      unique = fmt::format("{}_{}", role, uses[role]);
    }
    role = unique;
  }
}

bool Has(const std::vector<EntryId>& entries, EntryId entry) {
  return std::ranges::count(entries, entry) > 0;
}

// Copies the nodes of a cut into a graph of their own. The new graph needs
// every list that a graph JSON has, and is written and read back in the end, so
// that it is checked like one from a file.
struct Cutter {
  const Graph& graph;
  const GraphCut& cut;
  const absl::FunctionRef<std::string(const CutInput& input)> name_of;
  int32_t next_storage_id = FirstFreeStorageId(graph);
  std::map<int32_t, int32_t> shared_ids = {};
  std::map<EntryId, EntryRef> made = {};
  std::map<std::pair<NodeId, uint32_t>, EntryRef> given = {};
  Graph cut_out = {};

  absl::StatusOr<Graph> Cut() {
    AddInputsOf(cut.nodes.back());
    for (const NodeId node : cut.nodes) {
      if (node != cut.nodes.back()) AddInputsOf(node);
    }
    for (const NodeId node : cut.nodes) AddNode(node);
    cut_out.node_row_ptr.push_back(
        static_cast<uint32_t>(cut_out.entries.size()));
    for (const EntryId head : cut.heads) cut_out.heads.push_back(made.at(head));
    cut_out.has_device_index = graph.has_device_index;
    if (HasBuiltInFunctions(graph)) SetBuiltInFunctions(&cut_out);
    return ReadBack(cut_out);
  }

  // Ids are given anew, and equal ones stay equal only for entries that share.
  void AddEntry(EntryId entry, bool may_share) {
    cut_out.entries.push_back(graph.entry(entry));
    int32_t& id = cut_out.entries.back().storage_id;
    if (!may_share || !Has(cut.shared, entry)) {
      id = next_storage_id++;
      return;
    }
    const auto [found, is_new] = shared_ids.emplace(id, next_storage_id);
    if (is_new) ++next_storage_id;
    id = found->second;
  }

  // Returns the number of the node. The entries that are added next are the
  // node's own.
  uint32_t Append(GraphNode node) {
    cut_out.node_row_ptr.push_back(
        static_cast<uint32_t>(cut_out.entries.size()));
    cut_out.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(cut_out.nodes.size()) - 1;
  }

  void AddInputsOf(NodeId node) {
    const std::vector<EntryRef>& refs = graph.node(node).inputs;
    for (uint32_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph.EntryOf(refs[slot]);
      const bool is_linked = Has(cut.linked, entry);
      // An entry that another node of the cut makes is wired to that node;
      // every other one becomes an input of the new graph.
      const bool is_made =
          is_linked && graph.IsFunction(NodeId{refs[slot].node});
      if (is_made || (is_linked && made.contains(entry))) continue;
      // A tensor that is handed in from outside lies nowhere in the network.
      const EntryRef input = AddInput({node, slot}, entry, is_linked);
      if (is_linked) made[entry] = input;
      given[{node, slot}] = input;
    }
  }

  EntryRef AddInput(const CutInput& input, EntryId entry, bool may_share) {
    GraphNode node;
    node.name = name_of(input);
    const uint32_t number = Append(std::move(node));
    cut_out.arg_nodes.push_back(number);
    AddEntry(entry, may_share);
    return {number, 0, 0};
  }

  void AddNode(NodeId id) {
    GraphNode node = graph.node(id);
    // The nodes that a node had to wait for may not be in the cut.
    node.control_deps.clear();
    for (uint32_t slot = 0; slot < node.inputs.size(); ++slot) {
      const auto found = given.find({id, slot});
      node.inputs[slot] = found != given.end()
                              ? found->second
                              : made.at(graph.EntryOf(node.inputs[slot]));
    }
    const uint32_t number = Append(std::move(node));
    uint32_t slot = 0;
    for (const EntryId entry : EntriesMadeBy(graph, id)) {
      AddEntry(entry, true);
      made[entry] = {number, slot++, 0};
    }
  }
};

}  // namespace

// A name of separators alone says nothing, and becomes "node".
std::string PlainName(std::string_view name) {
  std::string plain;
  bool has_word = false;
  for (const char c : name.substr(0, kLongestName)) {
    plain += IsPlain(c) ? c : '_';
    has_word = has_word || plain.back() != '_';
  }
  return has_word ? plain : "node";
}

NodeRoles RolesOf(const Region* region, size_t num_inputs, size_t num_outputs) {
  NodeRoles roles{std::vector<std::string>(num_inputs),
                  std::vector<std::string>(num_outputs)};
  if (region != nullptr) {
    const RoleFinder finder{*region};
    const auto inputs = region->network.inputs();
    const auto outputs = region->network.outputs();
    for (size_t i = 0; i < std::min(num_inputs, inputs.size()); ++i) {
      roles.inputs[i] = finder.RoleOfInput(inputs[i]);
    }
    for (size_t i = 0; i < std::min(num_outputs, outputs.size()); ++i) {
      roles.outputs[i] = finder.RoleOfOutput(outputs[i]);
    }
  }
  MakeRolesPlain("In", &roles.inputs);
  MakeRolesPlain("Out", &roles.outputs);
  return roles;
}

ReproCase CaseOf(const ReproSource& source, NodeId node) {
  ReproCase made;
  made.node = source.index.KeyOf(node);
  made.layer = PlainName(made.node);
  made.library = source.library;
  made.library_file = source.library_file;
  return made;
}

absl::StatusOr<Graph> CutNodes(
    const Graph& graph, const GraphCut& cut,
    absl::FunctionRef<std::string(const CutInput& input)> name_of) {
  return Cutter{graph, cut, name_of}.Cut();
}

ReproInput InputNames::Describe(const CutInput& input) {
  const Graph& graph = source_.index.graph();
  const auto region = RegionOfNode(graph, input.node, source_.operators);
  return Describe(input, RolesOf(region.ok() ? &*region : nullptr,
                                 graph.node(input.node).inputs.size(),
                                 graph.OutputsOf(input.node)));
}

ReproInput InputNames::Describe(const CutInput& input, const NodeRoles& roles) {
  const Graph& graph = source_.index.graph();
  const GraphNode& maker =
      graph.nodes[graph.node(input.node).inputs[input.slot].node];
  ReproInput described;
  described.role = roles.inputs[input.slot];
  described.name = fmt::format("input_{}_{}", described.role,
                               PlainName(source_.index.KeyOf(input.node)));
  // Two nodes may have one plain name. A number behind it tells them apart.
  const int uses = ++uses_[described.name];
  if (uses > 1) described.name += fmt::format("__{}", uses);
  described.is_param = maker.kind == GraphNode::Kind::kInput &&
                       std::ranges::count(source_.params, maker.name) > 0;
  return described;
}

// An entry that the part reads of itself is linked, and everything else that it
// reads is asked for.
absl::StatusOr<PartCase> CutPart(
    const ReproSource& source, const PartOfGraph& part,
    absl::FunctionRef<absl::StatusOr<NDArray>(EntryId entry)> tensor_of,
    absl::FunctionRef<bool(EntryId entry)> is_constant) {
  const Graph& graph = source.index.graph();
  GraphCut cut{part.nodes};
  for (const NodeId node : part.nodes) {
    for (const EntryRef& ref : graph.node(node).inputs) {
      const bool is_inside =
          std::ranges::count(part.nodes, NodeId{ref.node}) > 0;
      if (is_inside) cut.linked.push_back(graph.EntryOf(ref));
    }
  }
  cut.heads = {part.head};
  PartCase made;
  ReproCase& node_case = made.node_case;
  node_case = CaseOf(source, part.nodes.back());
  InputNames names(source);
  const auto name_of = [&](const CutInput& input) {
    const EntryId entry =
        graph.EntryOf(graph.node(input.node).inputs[input.slot]);
    made.reads.push_back(entry);
    ReproInput described = names.Describe(input);
    described.is_param = is_constant(entry);
    node_case.inputs.push_back(std::move(described));
    return node_case.inputs.back().name;
  };
  NODEWISE_ASSIGN_OR_RETURN(node_case.graph, CutNodes(graph, cut, name_of));
  for (size_t i = 0; i < made.reads.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(node_case.inputs[i].tensor,
                              tensor_of(made.reads[i]));
  }
  node_case.outputs.push_back({"Out", NDArray()});
  return made;
}

}  // namespace nodewise
