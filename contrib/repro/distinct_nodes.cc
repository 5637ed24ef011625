#include <set>

#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/node_graph.h"

namespace nodewise {
namespace {

// Parts are put together with their lengths, so that no two lists of parts give
// one text. The text of a node stands for what it computes, so that two nodes
// are alike if their texts are.
void AddPart(std::string_view part, std::string* text) {
  text->append(std::to_string(part.size())).append(":").append(part);
}

std::string RegionContent(const Region& region) {
  NetworkData data = region.network.data();
  data.name.clear();
  for (auto& value : data.values) {
    if (value) value->name.clear();
  }
  for (auto& operation : data.operations) {
    if (operation) operation->name.clear();
  }
  return NetworkToText(data);
}

// Attributes that say the region are left out where the region itself is in the
// text, since they hold the names.
std::string ContentOfNode(const Graph& graph, NodeId id,
                          const OpSet& operators) {
  const GraphNode& node = graph.node(id);
  std::string content;
  const auto add_entry = [&](EntryId entry) {
    const GraphEntry& found = graph.entry(entry);
    AddPart(TypeToString(found.shape, found.dtype), &content);
  };
  for (const EntryRef& ref : node.inputs) add_entry(graph.EntryOf(ref));
  AddPart("", &content);
  for (const EntryId made : EntriesMadeBy(graph, id)) add_entry(made);
  const auto region = RegionOfNode(graph, id, operators);
  // Compiled functions of two names are two pieces of code.
  const bool is_built_in = HasBuiltInFunctions(graph) && region.ok();
  AddPart(is_built_in ? "" : node.function, &content);
  AddPart(region.ok() ? RegionContent(*region) : "", &content);
  for (const auto& [name, value] : node.attrs) {
    if (region.ok() && name.starts_with("nodewise.")) continue;
    AddPart(name, &content);
    AddPart(value, &content);
  }
  return content;
}

}  // namespace

std::vector<NodeId> DistinctNodes(const Graph& graph, const OpSet& operators) {
  std::vector<NodeId> distinct;
  std::set<std::string> seen;
  for (const NodeId node : AllNodes(graph)) {
    if (!CallsLibrary(graph.node(node))) continue;
    if (seen.insert(ContentOfNode(graph, node, operators)).second) {
      distinct.push_back(node);
    }
  }
  return distinct;
}

}  // namespace nodewise
