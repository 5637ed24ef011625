#include <nlohmann/json.hpp>
#include <string_view>

#include "nodewise/dump/dump.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

using Json = nlohmann::ordered_json;

// Rewrites a node as TVM does. Existing keys keep their place, new ones follow.
void RewriteNode(const Graph& graph, NodeId id, Json* json) {
  const GraphNode& node = graph.node(id);
  const bool is_function = node.kind == GraphNode::Kind::kFunction;
  Json inputs = Json::array();
  for (const EntryRef& ref : node.inputs) {
    inputs.push_back(graph.nodes[ref.node].name);
  }
  (*json)["inputs"] = std::move(inputs);
  (*json)["op"] = is_function ? node.function : "param";
  Json& attrs = (*json)["attrs"];
  if (!attrs.is_object()) attrs = Json::object();
  if (graph.OutputsOf(id) == 0) return;
  const GraphEntry& entry = graph.entry(graph.EntryOf(id, 0));
  attrs["T"] = "type: " + ToString(entry.dtype);
  (*json)["shape"] = entry.shape;
}

// Returns the text as TVM rewrites it, or discarded JSON if it is not this
// graph's.
Json Rewrite(const Graph& graph, std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Json discarded = Json(Json::value_t::discarded);
  if (!json.is_object() || !json.contains("nodes")) return discarded;
  Json& nodes = json["nodes"];
  if (!nodes.is_array() || nodes.size() != graph.nodes.size()) {
    return discarded;
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!nodes[i].is_object()) return discarded;
    RewriteNode(graph, NodeId{i}, &nodes[i]);
  }
  return json;
}

}  // namespace

std::string GraphDumpJson(const Graph& graph) {
  // The graph itself does not keep the order of all keys.
  Json json = Rewrite(graph, graph.text.text);
  if (json.is_discarded()) json = Rewrite(graph, WriteGraph(graph));
  // Written like Python's json.dumps(indent=4), in ASCII alone. Names may hold
  // any bytes, which must not throw.
  return json.dump(4, ' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace);
}

}  // namespace nodewise
