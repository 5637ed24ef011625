#include <cstring>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/compare/metrics.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Attributes of nodewise's own begin with this; a node says in them what it
// computes.
constexpr std::string_view kOwnAttributes = "nodewise.";

// In the order of SideDifference::What.
constexpr std::string_view kWhatNames[] = {"input", "parameter", "node"};

// Nodes are paired by their keys alone, so that one which was renamed is
// missing on one side and new on the other.
struct SideComparer {
  const NetworkSide& reference;
  const NetworkSide& candidate;
  const GraphIndex reference_index{reference.graph};
  const GraphIndex candidate_index{candidate.graph};
  // The candidate's nodes that have no partner yet, by key.
  std::unordered_map<std::string, NodeId> partners = {};
  std::vector<SideDifference> differences = {};

  std::vector<SideDifference> Compare() {
    for (const NodeId node : AllNodes(candidate.graph)) {
      partners.emplace(candidate_index.KeyOf(node), node);
    }
    for (const NodeId expected : AllNodes(reference.graph)) {
      const std::string& key = reference_index.KeyOf(expected);
      // Those without a partner in the end are the candidate's alone.
      const auto partner = partners.find(key);
      if (partner == partners.end()) {
        Add(WhatOf(reference, expected), key, "nothing", "one of that name");
        continue;
      }
      CompareNodes(expected, partner->second);
      partners.erase(partner);
    }
    for (const NodeId found : AllNodes(candidate.graph)) {
      const std::string& key = candidate_index.KeyOf(found);
      if (!partners.contains(key)) continue;
      Add(WhatOf(candidate, found), key, "one of that name", "nothing");
    }
    return std::move(differences);
  }

  using What = SideDifference::What;

  static const NDArray* ParameterOf(const NetworkSide& side, NodeId node) {
    return side.params.Find(side.graph.node(node).name);
  }

  static What WhatOf(const NetworkSide& side, NodeId node) {
    if (side.graph.IsFunction(node)) return What::kNode;
    return ParameterOf(side, node) == nullptr ? What::kInput : What::kParameter;
  }

  // One difference is said of each node, since others may only follow from it.
  void CompareNodes(NodeId expected, NodeId found) {
    const What what = WhatOf(reference, expected);
    const std::string& key = reference_index.KeyOf(expected);
    const std::string types = TypesOf(reference.graph, expected);
    const std::string found_types = TypesOf(candidate.graph, found);
    if (WhatOf(candidate, found) != what) {
      Add(what, key, std::string(NameOf(WhatOf(candidate, found))),
          std::string(NameOf(what)));
    } else if (types != found_types) {
      Add(what, key, found_types, types);
    } else if (what == What::kParameter) {
      CompareParameters(key, *ParameterOf(reference, expected),
                        *ParameterOf(candidate, found));
    } else if (what == What::kNode) {
      CompareCalls(key, expected, found);
    }
  }

  static std::string TypesOf(const Graph& graph, NodeId node) {
    std::vector<std::string> types;
    for (const EntryId made : EntriesMadeBy(graph, node)) {
      const GraphEntry& entry = graph.entry(made);
      types.push_back(TypeToString(entry.shape, entry.dtype));
    }
    return ListOf(types);
  }

  void CompareParameters(const std::string& key, const NDArray& expected,
                         const NDArray& found) {
    if (expected.bytes() == found.bytes() &&
        std::memcmp(expected.data(), found.data(), found.bytes()) == 0) {
      return;
    }
    // Types that have no numbers can only be said to differ.
    const auto metrics = MeasureDifference(*expected, *found);
    if (!metrics.ok()) {
      return Add(What::kParameter, key, "other bytes", "the reference's");
    }
    const bool is_finite = metrics->non_finite() == 0;
    const ElementDifference& worst =
        is_finite ? metrics->largest_error : metrics->first_non_finite;
    // Zeros of another sign, and other NaN, are the same numbers.
    if (metrics->different == 0) return;
    Add(What::kParameter, key,
        fmt::format("{} at element {}; {} of {} differ", worst.actual,
                    worst.element, metrics->different,
                    CountOf(metrics->elements, "element")),
        fmt::format("{}", worst.expected));
  }

  void CompareCalls(const std::string& key, NodeId expected, NodeId found) {
    // Nodes are stored and called otherwise in every build; only what they read
    // and say that they compute must be the same.
    const std::string inputs = InputsOf(reference_index, expected);
    const std::string found_inputs = InputsOf(candidate_index, found);
    if (inputs != found_inputs) {
      return Add(What::kNode, key, "reads " + found_inputs, "reads " + inputs);
    }
    const auto& attrs = reference.graph.node(expected).attrs;
    for (const auto& [name, text] : attrs) {
      if (!name.starts_with(kOwnAttributes)) continue;
      const std::string* const other =
          FindAttribute(candidate.graph.node(found).attrs, name);
      if (other != nullptr && *other == text) continue;
      return Add(
          What::kNode, key,
          fmt::format("{} {}", other == nullptr ? "no" : "another", name),
          "the reference's");
    }
  }

  static std::string InputsOf(const GraphIndex& index, NodeId node) {
    std::vector<std::string> names;
    for (const EntryRef& ref : index.graph().node(node).inputs) {
      names.push_back(index.KeyOf(index.graph().EntryOf(ref)));
    }
    return ListOf(names);
  }

  void Add(What what, std::string name, std::string found,
           std::string expected) {
    differences.push_back(
        {what, std::move(name), std::move(found), std::move(expected)});
  }
};

}  // namespace

std::string_view NameOf(SideDifference::What what) {
  return kWhatNames[static_cast<size_t>(what)];
}

std::vector<SideDifference> CompareSides(const NetworkSide& reference,
                                         const NetworkSide& candidate) {
  return SideComparer{reference, candidate}.Compare();
}

}  // namespace nodewise
