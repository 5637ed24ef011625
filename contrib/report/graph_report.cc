#include "nodewise/report/graph_report.h"

#include <cstdint>
#include <vector>

namespace nodewise {

void AddGraph(const GraphIndex& index, JsonWriter* json) {
  const Graph& graph = index.graph();
  json->BeginObject("graph");
  json->BeginArray("nodes");
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    const bool is_input = node.kind == GraphNode::Kind::kInput;
    std::vector<int64_t> reads;
    for (const EntryRef& ref : node.inputs) reads.push_back(ref.node);
    json->BeginObject();
    json->Add("node", index.KeyOf(NodeId{n}));
    json->Add("function", is_input ? "" : node.function);
    json->Add("reads", reads);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace nodewise
