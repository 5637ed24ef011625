#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/repro/hidden_network.h"
#include "contrib/repro/kept_parts.h"
#include "contrib/repro/one_node.h"
#include "contrib/repro/same_failure.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kMostKindsInName = 4;

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
  if (region.has_value()) attrs = AttributesOf(*region);
  const std::string* const last =
      FindAttribute(node.attrs, kChannelsLastAttribute);
  if (last != nullptr) attrs.emplace_back(kChannelsLastAttribute, *last);
  return attrs;
}

// Makes each name different by a number behind it.
class UniqueNames {
 public:
  std::string Of(const std::string& name, const char* between) {
    std::string unique = name;
    for (int use = 2; !taken_.insert(unique).second; ++use) {
      unique = fmt::format("{}{}{}", name, between, use);
    }
    return unique;
  }

 private:
  std::set<std::string> taken_;
};

class NameHider {
 public:
  NameHider(const OpSet& operators, ReproCase* node_case)
      : operators_(operators), case_(*node_case) {
    for (const GraphNode& node : case_.graph.nodes) {
      old_names_.push_back(node.name);
    }
  }

  absl::Status Hide() {
    ReadRegions();
    NameNodes();
    NameInputs();
    NODEWISE_RETURN_IF_ERROR(HideRegions());
    HideTexts();
    case_.graph.other_attrs.clear();
    case_.graph.storage_scopes.clear();
    if (case_.library_file.empty()) {
      SetBuiltInFunctions(&case_.graph);
      RenumberStorage();
    }
    NODEWISE_ASSIGN_OR_RETURN(case_.graph, ReadBack(case_.graph));
    return absl::OkStatus();
  }

 private:
  Graph& graph() { return case_.graph; }
  bool IsFunction(size_t node) { return graph().IsFunction(IdOf(node)); }
  static NodeId IdOf(size_t node) {
    return NodeId{static_cast<uint32_t>(node)};
  }
  size_t HeadNode() { return graph().heads[0].node; }

  void ReadRegions() {
    regions_.resize(graph().nodes.size());
    for (size_t n = 0; n < regions_.size(); ++n) {
      if (!IsFunction(n)) continue;
      auto region = RegionOfNodeIn(graph(), IdOf(n), operators_);
      if (region.ok()) regions_[n] = *std::move(region);
    }
  }

  bool IsCalled(size_t node, const std::string& key) {
    // Keys of nodes that share a name have a number behind it.
    return IsFunction(node) &&
           (key == old_names_[node] || key.starts_with(old_names_[node] + "#"));
  }

  // The graph's node with that key in the network. If several share its name,
  // it is most likely the one that the case is about.
  std::optional<size_t> FindNode(const std::string& key) {
    if (IsCalled(HeadNode(), key)) return HeadNode();
    for (size_t n = 0; n < old_names_.size(); ++n) {
      if (IsCalled(n, key)) return n;
    }
    return std::nullopt;
  }
  size_t NodeOfKey(const std::string& key) {
    return FindNode(key).value_or(HeadNode());
  }

  void NameNodes() {
    const size_t culprit = NodeOfKey(case_.node);
    new_names_.resize(old_names_.size());
    for (size_t n = 0; n < old_names_.size(); ++n) {
      if (!IsFunction(n)) continue;
      const bool is_head = n == HeadNode();
      const std::string name = regions_[n].has_value()
                                   ? NameOfRegion(*regions_[n])
                               : is_head ? HiddenName(case_, operators_)
                                         : "node";
      graph().nodes[n].name = new_names_[n] = unique_.Of(name, "_");
    }
    case_.node = new_names_[culprit];
    case_.layer = PlainName(case_.node);
  }

  void NameInputs() {
    std::map<std::string, ReproInput*> inputs;
    for (ReproInput& input : case_.inputs) inputs[input.name] = &input;
    for (ReproInput& input : case_.earlier_inputs) inputs[input.name] = &input;
    for (const uint32_t n : graph().arg_nodes) {
      const auto found = inputs.find(old_names_[n]);
      // The one that a node of its own reads it under is the first reader.
      const std::string role =
          found == inputs.end() ? "In" : found->second->role;
      std::string& name = graph().nodes[n].name;
      name = new_names_[n] = unique_.Of(
          fmt::format("input_{}_{}", role, PlainName(ReaderOf(n))), "__");
      if (found == inputs.end()) continue;
      found->second->name = name;
      HideOrigin(found->second);
    }
  }

  static void HideOrigin(ReproInput* input) {
    input->is_simpler = input->is_simpler || input->original.defined();
    input->original = NDArray();
  }

  std::string ReaderOf(uint32_t input) {
    for (size_t n = 0; n < graph().nodes.size(); ++n) {
      for (const EntryRef& ref : graph().nodes[n].inputs) {
        if (ref.node == input) return new_names_[n];
      }
    }
    return "node";
  }

  std::vector<std::string> NamesOfInputs(size_t node) {
    std::vector<std::string> names;
    std::map<std::string, int> uses;
    for (const EntryRef& ref : graph().nodes[node].inputs) {
      std::string name = graph().nodes[ref.node].name;
      // A node may read one entry twice, and several of one node.
      const int use = ++uses[name];
      if (use > 1) name += fmt::format("_as_{}", use);
      names.push_back(std::move(name));
    }
    return names;
  }

  absl::Status HideRegions() {
    for (size_t n = 0; n < regions_.size(); ++n) {
      if (!IsFunction(n)) continue;
      if (regions_[n].has_value()) {
        NODEWISE_ASSIGN_OR_RETURN(
            regions_[n],
            networks_.Hidden(*regions_[n], new_names_[n], NamesOfInputs(n)));
      }
      GraphNode& node = graph().nodes[n];
      node.attrs = OwnAttributes(node, regions_[n]);
      const bool is_own = case_.library_file.empty() &&
                          node.function != kNopFunction &&
                          node.function != kCopyFunction;
      if (is_own && regions_[n].has_value()) {
        node.function = "nodewise_" + NameOfRegion(*regions_[n]);
      }
    }
    if (!case_.region.has_value()) return absl::OkStatus();
    if (!case_.beside.has_value()) {
      case_.region = regions_[HeadNode()];
      return absl::OkStatus();
    }
    std::vector<std::string> inputs;
    for (const ReproInput& input : case_.inputs) inputs.push_back(input.name);
    NODEWISE_ASSIGN_OR_RETURN(
        case_.region, networks_.Hidden(*case_.region, case_.node, inputs));
    NODEWISE_ASSIGN_OR_RETURN(
        case_.beside->model,
        networks_.Hidden(case_.beside->model, case_.node, inputs));
    return absl::OkStatus();
  }

  // The numbers say how many tensors the network had. Libraries may have data
  // for theirs (TVM 0.8).
  void RenumberStorage() {
    std::map<int32_t, int32_t> numbers;
    for (GraphEntry& entry : graph().entries) {
      const auto next = static_cast<int32_t>(numbers.size());
      entry.storage_id = numbers.emplace(entry.storage_id, next).first->second;
    }
  }

  // "bend:0" is an output of a node; an input has no name that is left.
  std::string TensorOfKey(const std::string& key) {
    const size_t colon = key.rfind(':');
    const auto node = FindNode(key.substr(0, colon));
    if (!node.has_value() || colon == key.npos) return "a tensor before it";
    return new_names_[*node] + key.substr(colon);
  }

  void HideTexts() {
    std::vector<std::string> others;
    for (size_t n = 0; n < new_names_.size(); ++n) {
      if (IsFunction(n) && n != HeadNode()) others.push_back(new_names_[n]);
    }
    if (!case_.earlier_nodes.empty()) case_.earlier_nodes = others;
    if (case_.beside.has_value()) case_.beside->other_nodes = others;
    if (case_.plan_fault.has_value()) {
      SpoiledTensor& spoiled = *case_.plan_fault;
      spoiled.tensor = TensorOfKey(spoiled.tensor);
      if (spoiled.reader != "the caller") {
        spoiled.reader = new_names_[NodeOfKey(spoiled.reader)];
      }
    }
    // Reasons were written about the network.
    case_.reason.clear();
    if (!case_.why_no_region.empty() && !case_.plan_fault.has_value()) {
      case_.why_no_region =
          "the node does not say what it computes, or the "
          "reference cannot compute that";
    }
  }

  const OpSet& operators_;
  ReproCase& case_;
  std::vector<std::string> old_names_, new_names_;  // By node.
  std::vector<std::optional<Region>> regions_;      // By node.
  UniqueNames unique_;
  NetworkHider networks_;
};

// The messages with which functions fail are theirs, and may say anything.
void HideFailure(ReproCase* node_case) {
  if (!node_case->failure.has_value()) return;
  NodeFailure& failure = *node_case->failure;
  failure.node = node_case->node;
  failure.victim.clear();
  switch (failure.kind) {
    case NodeFailure::Kind::kCrash:
    case NodeFailure::Kind::kHang:
    case NodeFailure::Kind::kExit:
      failure.what = failure.what.substr(0, failure.what.find(" at address "));
      return;
    case NodeFailure::Kind::kError:
    case NodeFailure::Kind::kStrayWrite:
    case NodeFailure::Kind::kSideEffect:
      failure.what = NameOf(failure.kind);
      return;
  }
}

// Names must not matter; this says so.
absl::Status CheckIsSame(const DrawOptions& options, const SameFailure& same,
                         const ReproCase& before, ReproCase* hidden) {
  bool is_same = true;
  if (same.can_be_tried()) {
    NODEWISE_ASSIGN_OR_RETURN(is_same, same.IsIn(hidden));
  } else {
    // The judgement of the outputs must have the other names, too.
    NODEWISE_RETURN_IF_ERROR(same.Judge(hidden));
  }
  if (is_same && options.accuses != nullptr &&
      options.accuses(before).value_or(false)) {
    NODEWISE_ASSIGN_OR_RETURN(is_same, options.accuses(*hidden));
  }
  if (is_same) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: with other names the failure is another one, expected "
                  "the same (write it with the names that it has)",
                  before.node));
}

}  // namespace

absl::Status HideNames(const DrawOptions& options, const OpSet& operators,
                       ReproCase* node_case) {
  const ReproCase before = *node_case;
  const SameFailure same(before, operators);
  if (!node_case->anonymity.has_value()) node_case->anonymity.emplace();
  NODEWISE_RETURN_IF_ERROR(NameHider(operators, node_case).Hide());
  NODEWISE_RETURN_IF_ERROR(CheckIsSame(options, same, before, node_case));
  HideFailure(node_case);
  node_case->anonymity->has_names = false;
  node_case->anonymity->kept = KeptPartsOf(*node_case, operators);
  return absl::OkStatus();
}

std::string HiddenName(const Graph& graph, NodeId node,
                       const OpSet& operators) {
  const auto region = RegionOfNodeIn(graph, node, operators);
  return region.ok() ? NameOfRegion(*region) : "node";
}

std::string HiddenName(const ReproCase& node_case, const OpSet& operators) {
  if (node_case.region.has_value()) return NameOfRegion(*node_case.region);
  return HiddenName(node_case.graph, NodeId{node_case.graph.heads[0].node},
                    operators);
}

}  // namespace nodewise
