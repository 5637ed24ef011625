// CheckGraph: what is wrong with a graph though every value is of its kind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Faults of a graph that is in memory only, so without lines.
std::vector<std::string> DiagnosticsOf(const Graph& graph) {
  DiagnosticList diagnostics;
  CheckGraph(graph, &diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

TEST(CheckGraphTest, SoundGraphHasNoFaults) {
  EXPECT_THAT(DiagnosticsOf(AddThenRelu().Build()), IsEmpty());
  EXPECT_THAT(DiagnosticsOf(GraphBuilder().Build()), IsEmpty());
}

TEST(CheckGraphTest, ReferenceOutOfRangeIsLocatedInTheFile) {
  const std::string text = R"({"nodes": [
  {"op": "null", "name": "x", "inputs": []},
  {"op": "tvm_op", "name": "f", "inputs": [
    [0,
     3]], "attrs": {"func_name": "copy", "num_inputs": "1",
           "num_outputs": "1", "flatten_data": "0"}}],
"arg_nodes": [0], "heads": [[2, 0]], "node_row_ptr": [0, 1, 2],
"attrs": {"shape": ["list_shape", [[1], [1]]],
          "dltype": ["list_str", ["int8", "int8"]],
          "storage_id": ["list_int", [0, 1]]}})";
  EXPECT_THAT(DiagnosticsOf(GraphFile(text)),
              ElementsAre("graph.json:5:6: /nodes/1/inputs/0/1: output 3 of "
                          "node 0, which has 1 output",
                          "graph.json:7:30: /heads/0/0: node 2, expected one "
                          "of the 2 nodes"));
}

struct DiagnosticCase {
  const char* path;
  const char* json;
  const char* diagnostic;
};

// TV-09, TV-10, TV-11, TV-14, TV-15, TV-16, OV-14.
TEST(CheckGraphTest, EveryFaultIsNamedByItsPath) {
  const DiagnosticCase rows[] = {
      {"/nodes/3/inputs/0/0", "9", "/nodes/3/inputs/0/0: node 9, expected one"},
      {"/nodes/3/inputs/0/0", "3",
       "/nodes/3/inputs/0/0: node 3 (relu0), which does not run before node 3"},
      {"/nodes/2/inputs/1/0", "3", "/nodes/2/inputs/1/0: node 3 (relu0), whic"},
      {"/nodes/2/inputs/1/1", "1",
       "/nodes/2/inputs/1/1: output 1 of node 1, which has 1 output"},
      {"/heads/0/0", "4", "/heads/0/0: node 4, expected one of the 4 nodes"},
      {"/heads/0/1", "1", "/heads/0/1: output 1 of node 3"},
      {"/arg_nodes/1", "7", "/arg_nodes/1: node 7, expected one of the 4"},
      {"/arg_nodes/1", "2", "/arg_nodes/1: node 2 (add0), which is a function"},
      {"/arg_nodes/1", "0", "/arg_nodes/1: node 0 for the second time"},
      {"/arg_nodes", "[0]", "/nodes/1: input y, which arg_nodes leaves out"},
      {"/node_row_ptr", "[]", "/node_row_ptr: 0 items, expected 5"},
      {"/node_row_ptr/4", "3",
       "/node_row_ptr/4: 3, expected 4: node 3 (relu0) begins at 3 and has 1"},
      {"/node_row_ptr", "[1, 2, 3, 4, 4]", "/node_row_ptr/0: 1, expected 0"},
      {"/node_row_ptr", "[0, 2, 1, 3, 4]",
       "/node_row_ptr/1: 2, expected 1: node 0 (x) begins at 0 and has 1"},
      {"/node_row_ptr", "[0, 1, 2, 4, 4]",
       "/node_row_ptr/3: 4, expected 3: node 2 (add0) begins at 2 and has 1"},
      {"/nodes/2/attrs/func_name", "\"\"",
       "/nodes/2/attrs/func_name: an empty name"},
      {"/nodes/2/control_deps", "[2]", "/nodes/2/control_deps/0: node 2"},
      {"/attrs/shape/1/2", "[-4]", "/attrs/shape/1/2: shape (-4,) has a neg"},
      {"/attrs/shape/1/2", "[4294967296, 4294967296]",
       "/attrs/shape/1/2: shape (4294967296, 4294967296) has more elements"},
      {"/attrs/shape/1/2", "[4611686018427387904]",
       "/attrs/shape/1/2: shape (4611686018427387904,) of float32 needs more"},
      {"/attrs/dltype/1/2", "\"int7\"", "/attrs/dltype/1/2: type int7 (code 0"},
      {"/attrs/dltype/1/2", "\"void\"", "/attrs/dltype/1/2: type void"},
      {"/attrs/storage_id/1/2", "-1",
       "/attrs/storage_id/1/2: a number below 0 or above 2147483647"},
      {"/attrs/storage_id/1/2", "2147483648", "/attrs/storage_id/1/2: a numbe"},
      {"/attrs/storage_id/1", "[0, 1, 2]",
       "/attrs/storage_id/1: 3 items, expected 4 (one per node output)"},
      {"/attrs/dltype/1", "[]", "/attrs/dltype/1: 0 items, expected 4"},
      {"/attrs/storage_scope", "[\"list_str\", [\"global\"]]",
       "/attrs/storage_scope/1: 1 items, expected 4"},
      {"/attrs/device_index", "[\"list_int\", [1]]",
       "/attrs/device_index/1: 1 items, expected 4"},
      {"/attrs/device_index", "[\"list_int\", [1, 1, 0, 1]]",
       "/attrs/device_index/1/2: no device type"},
  };
  for (const DiagnosticCase& row : rows) {
    EXPECT_THAT(
        DiagnosticsOf(AddThenRelu().With(row.path, row.json).File()),
        Contains(AllOf(HasSubstr("graph.json:"), HasSubstr(row.diagnostic))))
        << row.path << " " << row.json;
  }
}

TEST(CheckGraphTest, CircleIsRefused) {
  const auto diagnostics = DiagnosticsOf(GraphBuilder()
                                             .Op("a", "copy", {"#1"})
                                             .Op("b", "copy", {"#0"})
                                             .Head("b")
                                             .File());
  EXPECT_THAT(diagnostics, ElementsAre(AllOf(HasSubstr("/nodes/0/inputs/0/0: "),
                                             HasSubstr("has a circle"))));
}

TEST(CheckGraphTest, ScopesAloneDoNotStandInForTypes) {
  // TVM sets the same bit for both and then crashes.
  const auto diagnostics =
      DiagnosticsOf(AddThenRelu()
                        .Without("/attrs/dltype")
                        .With("/attrs/storage_scope",
                              "[\"list_str\", [\"\", \"\", \"\", \"\"]]")
                        .File());
  EXPECT_THAT(diagnostics, ElementsAre(HasSubstr("/attrs/dltype: nothing")));
}

TEST(CheckGraphTest, FunctionWithoutAttributesIsRefused) {
  // TVM reads them uninitialised and crashes.
  EXPECT_THAT(DiagnosticsOf(AddThenRelu().Without("/nodes/2/attrs").File()),
              Contains(HasSubstr("/nodes/2/attrs: nothing, expected the key")));
}

TEST(CheckGraphTest, HarmlessOdditiesAreWarningsThatDoNotStopTheGraph) {
  GraphBuilder odd = AddThenRelu()
                         .Input("unused")
                         .With("/nodes/1/inputs", "[[0, 0]]")
                         .With("/arg_nodes", "[0, 1]");
  EXPECT_THAT(ParseGraph(odd.File()), IsOk());
  EXPECT_THAT(DiagnosticsOf(odd.File()),
              ElementsAre(HasSubstr("/nodes/1/inputs: 1 inputs of a node that"),
                          HasSubstr("/nodes/4: input unused, which")));
}

// TV-08: the counts are checked against the lists that they count.
TEST(CheckGraphTest, CountThatLiesIsAnErrorAtItsPlace) {
  const DiagnosticCase rows[] = {
      {"/nodes/2/attrs/num_inputs", "\"7\"",
       "/nodes/2/attrs/num_inputs: 7, expected 2, the number of its inputs"},
      {"/nodes/2/attrs/num_inputs", "\"0\"",
       "/nodes/2/attrs/num_inputs: 0, expected 2"},
      {"/nodes/2/attrs/num_outputs", "\"2\"",
       "/nodes/2/attrs/num_outputs: 2, expected 1, which node_row_ptr and the "
       "graph's lists have"},
      {"/nodes/2/attrs/num_outputs", "\"0\"",
       "/nodes/2/attrs/num_outputs: 0, expected 1"},
      {"/nodes/1/attrs", R"({"num_inputs": "1"})",
       "/nodes/1/attrs/num_inputs: 1, expected 0"},
      {"/nodes/1/attrs", R"({"num_outputs": "2"})",
       "/nodes/1/attrs/num_outputs: 2, expected 1, as every input has"},
  };
  for (const DiagnosticCase& row : rows) {
    const GraphText file = AddThenRelu().With(row.path, row.json).File();
    EXPECT_FALSE(ParseGraph(file).ok()) << row.path << " " << row.json;
    EXPECT_THAT(DiagnosticsOf(file), ElementsAre(HasSubstr(row.diagnostic)));
  }
}

// TV-08.
TEST(CheckGraphTest, BothCountsOfANodeThatLieAreListed) {
  const GraphText file = AddThenRelu()
                             .With("/nodes/2/attrs/num_inputs", "\"7\"")
                             .With("/nodes/2/attrs/num_outputs", "\"3\"")
                             .File();
  EXPECT_THAT(DiagnosticsOf(file),
              UnorderedElementsAre(HasSubstr("num_inputs: 7, expected 2"),
                                   HasSubstr("num_outputs: 3, expected 1")));
}

// TV-08.
TEST(CheckGraphTest, CountsOfAnInputThatAreTrueAreFine) {
  EXPECT_THAT(
      DiagnosticsOf(AddThenRelu()
                        .With("/nodes/1/attrs",
                              R"({"num_inputs": "0", "num_outputs": "1"})")
                        .File()),
      IsEmpty());
}

// TV-05: TVM writes an empty list there.
TEST(CheckGraphTest, InputNeedsNoListOfInputsOfItsOwn) {
  EXPECT_THAT(DiagnosticsOf(AddThenRelu().Without("/nodes/0/inputs").File()),
              IsEmpty());
  EXPECT_THAT(DiagnosticsOf(AddThenRelu().Without("/nodes/2/inputs").File()),
              Contains(HasSubstr("/nodes/2/inputs: nothing, expected")));
}

TEST(CheckGraphTest, NopKeepsTheBytes) {
  const auto nop = [](TensorSpec spec) {
    return DiagnosticsOf(
        GraphBuilder().Input("x").Op("n", "__nop", {"x"}, {spec}).File());
  };
  EXPECT_THAT(nop({{2, 2}}), IsEmpty());
  EXPECT_THAT(nop({{4}, "int32"}), IsEmpty());
  EXPECT_THAT(nop({{5}}),
              ElementsAre(AllOf(HasSubstr("/attrs/shape/1/1: output of __nop "
                                          "(node 1) with 20 bytes"),
                                HasSubstr("expected 16 bytes"))));
}

TEST(CheckGraphTest, CopyKeepsShapeAndTypeWithTheLanes) {
  const std::pair<TensorSpec, const char*> others[] = {
      {{{2, 2}}, "float32 (2, 2)"},
      {{{4}, "int32"}, "int32 (4,)"},
      {{{4}, "float32x2"}, "float32x2 (4,)"},
      {{{5}}, "float32 (5,)"}};
  for (const auto& [other, found] : others) {
    EXPECT_THAT(
        DiagnosticsOf(
            GraphBuilder().Input("x").Op("c", "__copy", {"x"}, {other}).File()),
        ElementsAre(HasSubstr(fmt::format(
            "/attrs/shape/1/1: output of __copy (node 1) with {}, expected "
            "float32 (4,), as its input has",
            found))));
  }
}

TEST(CheckGraphTest, NopAndCopyHaveOneInputAndOneOutput) {
  for (const char* function : {"__nop", "__copy"}) {
    const auto diagnostics =
        DiagnosticsOf(GraphBuilder()
                          .Input("x")
                          .Op("none", function, {})
                          .Op("two", function, {"x", "x"})
                          .Op("outputs", function, {"x"}, {{}, {}})
                          .File());
    EXPECT_THAT(diagnostics,
                ElementsAre(HasSubstr("/nodes/1: "), HasSubstr("/nodes/2: "),
                            HasSubstr("/nodes/3: ")));
  }
}

TEST(CheckGraphTest, GraphChangedByHandIsHeldToTheSameRules) {
  Graph graph = AddThenRelu().Build();
  graph.storage_scopes = {"global"};
  EXPECT_THAT(DiagnosticsOf(graph),
              ElementsAre(HasSubstr("/attrs/storage_scope")));
  graph = AddThenRelu().Build();
  graph.entries.pop_back();
  EXPECT_THAT(DiagnosticsOf(graph), ElementsAre(HasSubstr("/attrs/shape")));
  graph = AddThenRelu().Build();
  graph.nodes[0].num_outputs = 0;
  graph.node_row_ptr = {0, 0, 1, 2, 3};
  graph.entries.pop_back();
  EXPECT_THAT(DiagnosticsOf(graph), Contains(HasSubstr("/nodes/0")));
}

}  // namespace
}  // namespace nodewise
