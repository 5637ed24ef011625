#include "contrib/runner/node_marks.h"

#include <string>
#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/own_attributes.h"

namespace nodewise {
namespace {

constexpr std::string_view kNodeAttribute = "nodewise.node";

}  // namespace

Graph WithNodeMarks(Graph graph) {
  std::vector<std::string> keys;
  {
    const GraphIndex index(graph);
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      keys.push_back(index.KeyOf(NodeId{n}));
    }
  }
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    if (node.kind != GraphNode::Kind::kFunction) continue;
    std::erase_if(node.attrs, [](const auto& attribute) {
      return attribute.first == kNodeAttribute;
    });
    node.attrs.emplace_back(kNodeAttribute, std::move(keys[n]));
  }
  return graph;
}

std::string_view MarkedNode(const KernelRequest& request) {
  const std::string* const key = FindAttribute(request.attrs, kNodeAttribute);
  return key == nullptr ? std::string_view() : *key;
}

}  // namespace nodewise
