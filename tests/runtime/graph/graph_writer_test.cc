#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph WrittenAndRead(const Graph& graph) {
  auto read = ParseGraph(GraphFile(WriteGraph(graph)));
  EXPECT_THAT(read, IsOk());
  return *std::move(read);
}

TEST(WriteGraphTest, LayoutIsThatOfTvm) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{2, 1}})
                          .Op("r", "relu", {"x"}, {{{}, "int8"}})
                          .Attr("hash", "ab")
                          .Head("r")
                          .Build();
  EXPECT_EQ(WriteGraph(graph), R"({
  "nodes": [
    {
      "op": "null",
      "name": "x",
      "inputs": []
    },
    {
      "op": "tvm_op",
      "name": "r",
      "attrs": {
        "num_outputs": "1",
        "num_inputs": "1",
        "flatten_data": "0",
        "func_name": "relu",
        "hash": "ab"
      },
      "inputs": [[0, 0, 0]]
    }
  ],
  "arg_nodes": [0],
  "heads": [[1, 0, 0]],
  "attrs": {
    "shape": ["list_shape", [[2, 1], []]],
    "storage_id": ["list_int", [0, 1]],
    "dltype": ["list_str", ["float32", "int8"]]
  },
  "node_row_ptr": [0, 1, 2]
}
)");
}

// TV-13, TV-17.
TEST(WriteGraphTest, WritingWhatWasReadAgainGivesTheSameText) {
  const Graph graph =
      GraphBuilder()
          .Input("x", {{3}, "float32", 7, 1})
          .Op("s", "split", {"x"}, {{{1}, "bool", 2147483647}, {{0, 2}}})
          .Attr("flatten_data", "1")
          .Op("n", "__nop", {"s:1"}, {{{2, 0}, "bfloat16"}})
          .Head("n")
          .Head("s")
          .With("/nodes/2/control_deps", "[0, 1]")
          .With("/attrs/storage_scope",
                R"(["list_str", ["", "global.texture", "", ""]])")
          .With("/attrs/custom", R"(["list_list", [[1], {"a": "]"}]])")
          .Build();
  const std::string text = WriteGraph(graph);
  EXPECT_EQ(WriteGraph(WrittenAndRead(graph)), text);
  EXPECT_THAT(text, HasSubstr("\"custom\": [\n"));
}

// TV-05.
TEST(WriteGraphTest, EveryFieldOfANodeComesBack) {
  Graph graph = AddThenRelu().Build();
  GraphNode& node = graph.nodes[3];
  node.name = "quote \" back \\ line \n tab \t bell \x07 ünï";
  node.flatten = true;
  node.attrs = {{"key \"", "value \r"}};
  node.control_deps = {0, 2};
  node.inputs[0].version = 9;
  const GraphNode read = WrittenAndRead(graph).nodes[3];
  EXPECT_EQ(read.name, node.name);
  EXPECT_EQ(read.function, "relu");
  EXPECT_TRUE(read.flatten);
  EXPECT_EQ(read.attrs, node.attrs);
  EXPECT_THAT(read.control_deps, ElementsAre(0, 2));
  EXPECT_EQ(read.inputs[0].version, 9u);
}

TEST(WriteGraphTest, AttributesOfAnInputComeBack) {
  Graph graph = AddThenRelu().Build();
  graph.nodes[0].attrs = {{"layout", "NCHW"}};
  const GraphNode read = WrittenAndRead(graph).nodes[0];
  EXPECT_EQ(read.kind, GraphNode::Kind::kInput);
  EXPECT_EQ(read.attrs, graph.nodes[0].attrs);
}

// TV-14.
TEST(WriteGraphTest, EveryTypeComesBack) {
  for (const char* dtype :
       {"float16", "float64", "bfloat16", "int4", "int8", "uint1", "bool",
        "uint64", "e4m3_float8", "float32x4", "handle"}) {
    const Graph graph = GraphBuilder()
                            .Input("float", {{1}, "float32"})
                            .Input("x", {{1}, dtype})
                            .Build();
    // Not that of `graph`: it has been read, too.
    EXPECT_TRUE(WrittenAndRead(graph).entries[1].dtype == *ParseDType(dtype))
        << dtype;
  }
}

TEST(WriteGraphTest, EmptyGraphComesBack) {
  const Graph graph = WrittenAndRead(GraphBuilder().Build());
  EXPECT_TRUE(graph.nodes.empty());
  EXPECT_TRUE(graph.heads.empty());
}

}  // namespace
}  // namespace nodewise
