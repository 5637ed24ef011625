#include "contrib/runner/node_marks.h"

#include <string>

#include "nodewise/graph/graph_json.h"

namespace nodewise {
namespace {

constexpr std::string_view kNodeAttribute = "nodewise.node";

}  // namespace

Graph WithNodeMarks(const GraphIndex& index) {
  Graph graph = index.graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    if (node.kind != GraphNode::Kind::kFunction) continue;
    std::erase_if(node.attrs, [](const auto& attribute) {
      return attribute.first == kNodeAttribute;
    });
    node.attrs.emplace_back(kNodeAttribute, index.KeyOf(NodeId{n}));
  }
  return graph;
}

std::string_view MarkedNode(const KernelRequest& request) {
  const std::string* const key = FindAttribute(request.attrs, kNodeAttribute);
  return key == nullptr ? std::string_view() : *key;
}

}  // namespace nodewise
