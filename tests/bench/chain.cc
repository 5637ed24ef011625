#include "tests/bench/chain.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

GraphNode InputNode(const char* name) {
  GraphNode node;
  node.name = name;
  return node;
}

GraphNode CallNode(const Chain& chain, uint32_t call, uint32_t inputs) {
  GraphNode node;
  node.kind = GraphNode::Kind::kFunction;
  node.name = fmt::format("add_{}", call);
  node.function = chain.function(call);
  node.inputs = {{call == 0 ? 0 : call - 1 + inputs, 0, 0}};
  if (chain.reads_parameter) node.inputs.push_back({1, 0, 0});
  node.num_inputs = static_cast<uint32_t>(node.inputs.size());
  return node;
}

}  // namespace

Graph ChainGraph(const Chain& chain) {
  Graph graph;
  graph.nodes.push_back(InputNode("x"));
  if (chain.reads_parameter) graph.nodes.push_back(InputNode("p"));
  const auto inputs = static_cast<uint32_t>(graph.nodes.size());
  for (uint32_t i = 0; i < inputs; ++i) graph.arg_nodes.push_back(i);
  for (uint32_t call = 0; call < chain.nodes; ++call) {
    graph.nodes.push_back(CallNode(chain, call, inputs));
  }
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const auto storage = static_cast<int32_t>(n < inputs ? n : inputs + n % 2);
    graph.entries.push_back({{chain.floats}, kFloat32, storage, 0});
    graph.node_row_ptr.push_back(n);
  }
  graph.node_row_ptr.push_back(static_cast<uint32_t>(graph.nodes.size()));
  graph.heads = {{static_cast<uint32_t>(graph.nodes.size()) - 1, 0, 0}};
  return graph;
}

NDArray Ones(int64_t floats) {
  NDArray ones = NDArray::Empty({floats}, kFloat32, kCpu).value();
  std::fill_n(ones.As<float>(), floats, 1.0F);
  return ones;
}

void FillWithOnes(GraphExecutor& executor) {
  for (size_t i = 0; i < executor.NumInputs(); ++i) {
    const int64_t floats = executor.InputInfo(i).shape[0];
    NODEWISE_CHECK(executor.SetInput(i, *Ones(floats)).ok());
  }
}

std::string AddFunction(uint32_t call, uint32_t functions) {
  return fmt::format("bench_add_{:03}", call % functions);
}

}  // namespace nodewise
