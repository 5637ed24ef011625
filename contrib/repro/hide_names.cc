#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "contrib/repro/cut_graph.h"
#include "contrib/repro/hidden_network.h"
#include "contrib/repro/node_trial.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// Zeros and ones that have been put in the place of numbers say nothing.
bool HasRevealingNumbers(const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  const bool has_numbers = IsFloat(dtype) || IsInteger(dtype) || IsBool(dtype);
  if (!has_numbers) return true;
  const std::vector<double> numbers = ToDoubles(tensor);
  return std::ranges::any_of(numbers,
                             [](double x) { return x != 0 && x != 1; });
}

// Lists what a case still tells of its network when its names are hidden.
struct KeptLister {
  const ReproCase& node_case;
  const OpSet& operators;
  std::set<std::pair<std::string, std::string>> listed = {};
  std::vector<KeptPart> parts = {};

  std::vector<KeptPart> List() {
    Add("description", "",
        "element types and shapes, the kinds of the operators and their "
        "attributes, and the distribution of the numbers of each tensor");
    ListLibrary();
    for (const ReproInput& input : node_case.inputs) ListTensor(input);
    for (const ReproInput& input : node_case.earlier_inputs) ListTensor(input);
    ListNodes();
    if (node_case.beside) ListNetwork(node_case.beside->model);
    return std::move(parts);
  }

  // Nodes may compute the same, and a model beside one repeats its region.
  void Add(std::string kind, std::string name, std::string why) {
    if (!listed.insert({kind, name}).second) return;
    parts.push_back({std::move(kind), std::move(name), std::move(why)});
  }

  // Compiled code is handed on as it is.
  void ListLibrary() {
    if (node_case.library_file.empty()) return;
    Add("library", "lib.so",
        "compiled code cannot be replaced: it holds the names of its "
        "functions, and constants, paths and other names as far as its "
        "compiler left them in it" +
            LibraryContentsText());
    for (const GraphNode& node : node_case.graph.nodes) {
      if (!CallsLibrary(node)) continue;
      Add("function", node.function, "the library is called by that name");
    }
  }

  // WithErasedNetwork() says what of a library is made blank.
  std::string LibraryContentsText() const {
    // A library that cannot be read may hold anything.
    const auto summary = SummariseLibrary(node_case.library_file);
    if (!summary.ok() || !summary->blob_status.ok()) {
      return "; what it holds beside its code is not understood";
    }
    std::string text;
    for (const ModuleSummary& module : summary->modules) {
      if (!module.graph_json.empty()) {
        text +=
            "; of the factory in it the number, types and shapes of the "
            "network's parameters are left";
      } else if (!module.tensors.empty()) {
        text += "; constants of its modules stay, with their names";
      }
    }
    if (summary->has_bytecode) {
      text +=
          "; its bytecode says what the whole network computes, with the types "
          "and shapes of its constants";
    }
    return text;
  }

  // A tensor that is drawn only counts if the places of its zeros were kept.
  void ListTensor(const ReproInput& input) {
    if (input.is_simpler && !HasRevealingNumbers(input.tensor)) return;
    if (input.is_drawn) {
      if (!input.why_places.empty())
        Add("places", input.name, input.why_places);
      return;
    }
    Add("tensor", input.name,
        fmt::format("its numbers are the network's{}: {}",
                    input.is_simpler ? ", some left out or rounded" : "",
                    input.why_not_drawn.empty() ? "nothing else was tried"
                                                : input.why_not_drawn));
  }

  void ListNodes() {
    for (const NodeId node : FunctionNodesOf(node_case.graph)) {
      const auto region = RegionOfNode(node_case.graph, node, operators);
      if (region.ok()) ListNetwork(region->network);
    }
  }

  // Constants are known by their bytes: names are new by now.
  bool IsDrawn(const NDArray& constant) const {
    const std::vector<uint64_t>& drawn = node_case.anonymity->drawn_constants;
    return std::ranges::count(drawn,
                              HashBytes(constant.data(), constant.bytes())) > 0;
  }

  void ListNetwork(const Network& network) {
    for (const auto& value : network.data().values) {
      if (!value || value->kind != NetworkValue::Kind::kConstant ||
          IsDrawn(value->data)) {
        continue;
      }
      Add("constant", value->name,
          fmt::format("{}: its numbers are the network's",
                      ToString(value->type)));
    }
    for (const OperationId id : network.order()) {
      ListOperation(network.operation(id));
    }
  }

  void ListOperation(const Operation& operation) {
    if (const auto* const opaque = operation.attrs.As<ops::Opaque>()) {
      Add("operator", NameOf(*opaque),
          "an operator that is not known is kept with all that its "
          "attributes hold");
      return;
    }
    for (const NamedAttr& attr : NamedAttrsOf(operation.attrs)) {
      const auto* const body = std::get_if<Subgraph>(&attr.value);
      if (body != nullptr && body->body != nullptr) ListNetwork(*body->body);
      const auto* const words =
          std::get_if<std::vector<std::string>>(&attr.value);
      const auto* const numbers = std::get_if<std::vector<float>>(&attr.value);
      // Lists of words and numbers, and tensors, may have been learned; single
      // numbers such as strides belong to the description.
      const bool has_data = std::holds_alternative<NDArray>(attr.value) ||
                            (words != nullptr && !words->empty()) ||
                            (numbers != nullptr && !numbers->empty());
      if (!has_data) continue;
      Add("attribute", fmt::format("{}.{}", operation.kind(), attr.name),
          "its value is the network's");
    }
  }
};

// A long fusion is named after its first operators.
constexpr size_t kMostKindsInName = 4;

// "conv_relu" says what a node computes, and nothing about its network.
std::string NameOfRegion(const Region& region) {
  std::string name;
  size_t count = 0;
  for (const OperationId id : SourceOperations(region)) {
    if (count++ == kMostKindsInName) break;
    name += (name.empty() ? "" : "_") +
            WordOfKind(region.network.operation(id).kind());
  }
  return PlainName(name);
}

// The attributes that are needed to run the node, or to know its layouts, and
// those that say its region. No others are kept: other compilers note anything
// they like.
std::vector<std::pair<std::string, std::string>> OwnAttributes(
    const GraphNode& node, const std::optional<Region>& region) {
  std::vector<std::pair<std::string, std::string>> attrs;
  if (region) attrs = AttributesOf(*region);
  const std::string* const last =
      FindAttribute(node.attrs, kChannelsLastAttribute);
  if (last != nullptr) attrs.emplace_back(kChannelsLastAttribute, *last);
  return attrs;
}

// Replaces the names in a case. Nodes are named first, since the names of what
// they read are made of theirs; then all texts that speak of nodes follow.
struct NameAnonymizer {
  const OpSet& operators;
  ReproCase& node_case;
  Graph& graph = node_case.graph;
  std::vector<std::string> old_names = {}, new_names = {};  // By node.
  std::vector<std::optional<Region>> regions = {};          // By node.
  std::vector<size_t> functions = {};  // The nodes that compute.
  std::set<std::string> taken = {};
  NetworkHider networks = {};

  absl::Status Hide() {
    ReadNodes();
    NameNodes();
    NameInputs();
    NODEWISE_RETURN_IF_ERROR(HideRegions());
    HideTexts();
    graph.other_attrs.clear();
    graph.storage_scopes.clear();
    if (node_case.library_file.empty()) {
      SetBuiltInFunctions(&graph);
      RenumberStorage();
    }
    NODEWISE_ASSIGN_OR_RETURN(graph, ReadBack(graph));
    return absl::OkStatus();
  }

  void ReadNodes() {
    regions.resize(graph.nodes.size());
    for (const GraphNode& node : graph.nodes) old_names.push_back(node.name);
    for (const NodeId id : FunctionNodesOf(graph)) {
      functions.push_back(Index(id));
      auto region = RegionOfNode(graph, id, operators);
      if (region.ok()) regions[Index(id)] = *std::move(region);
    }
  }

  size_t HeadNode() const { return graph.heads[0].node; }

  std::string Unique(const std::string& name, const char* between) {
    std::string unique = name;
    for (int use = 2; !taken.insert(unique).second; ++use) {
      unique = fmt::format("{}{}{}", name, between, use);
    }
    return unique;
  }

  // Keys of nodes that share a name have a number behind it.
  bool IsCalled(size_t node, const std::string& key) const {
    return key == old_names[node] || key.starts_with(old_names[node] + "#");
  }

  // The graph's node with that key in the network. If several share its name,
  // it is most likely the one that the case is about.
  std::optional<size_t> FindNode(const std::string& key) {
    std::optional<size_t> found;
    for (const size_t n : functions) {
      if (!IsCalled(n, key)) continue;
      if (n == HeadNode()) return n;
      if (!found) found = n;
    }
    return found;
  }
  size_t NodeOfKey(const std::string& key) {
    return FindNode(key).value_or(HeadNode());
  }

  // A node whose region is not known is called "node", unless the model beside
  // the case says what it computes.
  void NameNodes() {
    const size_t culprit = NodeOfKey(node_case.node);
    new_names.resize(old_names.size());
    for (const size_t n : functions) {
      const bool is_head = n == HeadNode();
      const std::string name = regions[n] ? NameOfRegion(*regions[n])
                               : is_head  ? HiddenName(node_case, operators)
                                          : "node";
      graph.nodes[n].name = new_names[n] = Unique(name, "_");
    }
    node_case.node = new_names[culprit];
    node_case.layer = PlainName(node_case.node);
  }

  void NameInputs() {
    std::map<std::string, ReproInput*> inputs;
    for (ReproInput& input : node_case.inputs) inputs[input.name] = &input;
    for (ReproInput& input : node_case.earlier_inputs)
      inputs[input.name] = &input;
    for (const uint32_t n : graph.arg_nodes) {
      const auto found = inputs.find(old_names[n]);
      const std::string role =
          found == inputs.end() ? "In" : found->second->role;
      std::string& name = graph.nodes[n].name;
      name = new_names[n] = Unique(
          fmt::format("input_{}_{}", role, PlainName(ReaderOf(n))), "__");
      if (found == inputs.end()) continue;
      found->second->name = name;
      ReproInput& input = *found->second;
      input.is_simpler = input.is_simpler || input.original.defined();
      input.original = NDArray();
    }
  }

  std::string ReaderOf(uint32_t input) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const EntryRef& ref : graph.nodes[n].inputs) {
        if (ref.node == input) return new_names[n];
      }
    }
    return "node";
  }

  std::vector<std::string> NamesOfInputs(size_t node) {
    std::vector<std::string> names;
    std::map<std::string, int> uses;
    for (const EntryRef& ref : graph.nodes[node].inputs) {
      std::string name = graph.nodes[ref.node].name;
      // A node may read one entry twice, and several of one node.
      const int use = ++uses[name];
      if (use > 1) name += fmt::format("_as_{}", use);
      names.push_back(std::move(name));
    }
    return names;
  }

  absl::Status HideRegions() {
    for (const size_t n : functions) {
      if (regions[n]) {
        NODEWISE_ASSIGN_OR_RETURN(
            regions[n],
            networks.Hidden(*regions[n], new_names[n], NamesOfInputs(n)));
      }
      GraphNode& node = graph.nodes[n];
      node.attrs = OwnAttributes(node, regions[n]);
      if (node_case.library_file.empty() && CallsLibrary(node) && regions[n]) {
        node.function = "nodewise_" + NameOfRegion(*regions[n]);
      }
    }
    if (!node_case.region) return absl::OkStatus();
    if (!node_case.beside) {
      node_case.region = regions[HeadNode()];
      return absl::OkStatus();
    }
    std::vector<std::string> inputs;
    for (const ReproInput& input : node_case.inputs)
      inputs.push_back(input.name);
    NODEWISE_ASSIGN_OR_RETURN(
        node_case.region,
        networks.Hidden(*node_case.region, node_case.node, inputs));
    NODEWISE_ASSIGN_OR_RETURN(
        node_case.beside->model,
        networks.Hidden(node_case.beside->model, node_case.node, inputs));
    return absl::OkStatus();
  }

  // The numbers say how many tensors the network had. Libraries may have data
  // for theirs (TVM 0.8).
  void RenumberStorage() {
    std::map<int32_t, int32_t> numbers;
    for (GraphEntry& entry : graph.entries) {
      const auto next = static_cast<int32_t>(numbers.size());
      entry.storage_id = numbers.emplace(entry.storage_id, next).first->second;
    }
  }

  // "bend:0" is an output of a node; an input has no name that is left.
  std::string TensorOfKey(const std::string& key) {
    const size_t colon = key.rfind(':');
    const auto node = FindNode(key.substr(0, colon));
    if (!node || colon == key.npos) return "a tensor before it";
    return new_names[*node] + key.substr(colon);
  }

  void HideTexts() {
    std::vector<std::string> others;
    for (const size_t n : functions) {
      if (n != HeadNode()) others.push_back(new_names[n]);
    }
    if (!node_case.earlier_nodes.empty()) node_case.earlier_nodes = others;
    if (node_case.beside) node_case.beside->other_nodes = others;
    if (node_case.plan_fault) {
      SpoiledTensor& spoiled = *node_case.plan_fault;
      spoiled.tensor = TensorOfKey(spoiled.tensor);
      if (spoiled.reader != "the caller") {
        spoiled.reader = new_names[NodeOfKey(spoiled.reader)];
      }
    }
    // Reasons were written about the network.
    node_case.reason.clear();
    if (!node_case.why_no_region.empty() && !node_case.plan_fault) {
      node_case.why_no_region =
          "the node does not say what it computes, or the "
          "reference cannot compute that";
    }
  }
};

// The messages with which functions fail are theirs, and may say anything.
void AnonymizeFailure(ReproCase* node_case) {
  if (!node_case->failure) return;
  NodeFailure& failure = *node_case->failure;
  failure.node = node_case->node;
  failure.victim.clear();
  const bool has_address = failure.kind == NodeFailure::Kind::kCrash ||
                           failure.kind == NodeFailure::Kind::kHang ||
                           failure.kind == NodeFailure::Kind::kExit;
  failure.what = has_address
                     ? failure.what.substr(0, failure.what.find(" at address "))
                     : std::string(NameOf(failure.kind));
}

// Fails if the case shows another failure under the new names: names must not
// matter.
absl::Status CheckIsSame(const DrawOptions& options, const SameFailure& same,
                         const ReproCase& before, ReproCase* hidden) {
  bool is_same = true;
  if (same.can_be_tried()) {
    NODEWISE_ASSIGN_OR_RETURN(is_same, same.IsIn(hidden));
  } else {
    // The judgement of the outputs must have the other names, too.
    NODEWISE_RETURN_IF_ERROR(same.Judge(hidden));
  }
  // A search that accused the node before must still accuse it; one that did
  // not need not.
  if (is_same && options.accuses != nullptr &&
      options.accuses(before).value_or(false)) {
    NODEWISE_ASSIGN_OR_RETURN(is_same, options.accuses(*hidden));
  }
  if (is_same) return absl::OkStatus();
  return FailedPrecondition(
      "{}: with other names the failure is another one, expected the same "
      "(write it with the names that it has)",
      before.node);
}

}  // namespace

void WriteKept(const std::vector<KeptPart>& kept, JsonWriter* json) {
  json->BeginArray("kept");
  for (const KeptPart& part : kept) {
    json->BeginObject();
    json->Add("kind", part.kind);
    json->Add("name", part.name);
    json->Add("why", part.why);
    json->EndObject();
  }
  json->EndArray();
}

// The failure keeps its words until the check has compared them.
absl::Status HideNames(const DrawOptions& options, const OpSet& operators,
                       ReproCase* node_case) {
  const ReproCase before = *node_case;
  const SameFailure same(before, operators);
  if (!node_case->anonymity) node_case->anonymity.emplace();
  NameAnonymizer hider{operators, *node_case};
  NODEWISE_RETURN_IF_ERROR(hider.Hide());
  NODEWISE_RETURN_IF_ERROR(CheckIsSame(options, same, before, node_case));
  AnonymizeFailure(node_case);
  node_case->anonymity->has_names = false;
  node_case->anonymity->kept = KeptLister{*node_case, operators}.List();
  return absl::OkStatus();
}

std::string HiddenName(const Graph& graph, NodeId node,
                       const OpSet& operators) {
  const auto region = RegionOfNode(graph, node, operators);
  return region.ok() ? NameOfRegion(*region) : "node";
}

std::string HiddenName(const ReproCase& node_case, const OpSet& operators) {
  if (node_case.region) return NameOfRegion(*node_case.region);
  return HiddenName(node_case.graph, NodeId{node_case.graph.heads[0].node},
                    operators);
}

}  // namespace nodewise
