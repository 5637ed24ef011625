#include "nodewise/graph/graph_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// The example of the documentation of TVM's debugger.
constexpr char kExample[] = R"({
  "nodes": [
    {
      "op": "null",
      "name": "x",
      "inputs": []
    },
    {
      "op": "tvm_op",
      "name": "relu0",
      "attrs": {
        "flatten_data": "0",
        "func_name": "fuse_l2_normalize_relu",
        "num_inputs": "1",
        "num_outputs": "1"
      },
      "inputs": [[0, 0, 0]]
    }
  ],
  "arg_nodes": [0],
  "node_row_ptr": [0, 1, 2],
  "heads": [[1, 0, 0]],
  "attrs": {
    "storage_id": ["list_int", [1, 0]],
    "dtype": ["list_int", [0, 0]],
    "dltype": ["list_str", [
        "float32",
        "float32"]],
    "shape": ["list_shape", [
        [1, 3, 20, 20],
        [1, 3, 20, 20]]],
    "device_index": ["list_int", [1, 1]]
  }
}
)";

// Returns `text` with `from`, which it contains once, replaced by `to`.
std::string Changed(std::string text, const std::string& from,
                    const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ExampleWith(const std::string& from, const std::string& to) {
  return Changed(kExample, from, to);
}

// TV-02, TV-03, TV-09, TV-13, TV-15, TV-18.
TEST(GraphTest, ExampleOfTheDocumentationIsRead) {
  const auto graph = ParseGraph(GraphFile(kExample));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->nodes[0].kind, GraphNode::Kind::kInput);
  EXPECT_EQ(graph->nodes[1].function, "fuse_l2_normalize_relu");
  EXPECT_THAT(graph->arg_nodes, ElementsAre(0));
  EXPECT_EQ(graph->heads[0].node, 1u);
  EXPECT_THAT(graph->entries[1].shape, ElementsAre(1, 3, 20, 20));
  EXPECT_EQ(graph->entries[0].storage_id, 1);
  EXPECT_TRUE(graph->has_device_index);
  EXPECT_EQ(graph->other_attrs[0].first, "dtype");
  EXPECT_EQ(graph->other_attrs[0].second, "[\"list_int\", [0, 0]]");
}

// TV-18.
TEST(GraphTest, CommentOfTheDocumentationIsLocated) {
  for (const char* line : {"\"nodes\": [  # List", "\"nodes\": [  // List"}) {
    EXPECT_THAT(ParseGraph(GraphFile(ExampleWith("\"nodes\": [", line))),
                FailsWith(StatusCode::kDataLoss,
                          StartsWith("graph.json:2:15: not JSON: ")));
  }
}

// TV-18.
TEST(GraphTest, TrailingCommaOfTheDocumentationIsLocated) {
  const std::string text = ExampleWith("[1, 1]]\n", "[1, 1]],\n");
  EXPECT_THAT(
      ParseGraph(GraphFile(text)),
      FailsWith(StatusCode::kDataLoss, AllOf(StartsWith("graph.json:33:3: "),
                                             HasSubstr("not JSON: "))));
}

TEST(GraphTest, KeysMayComeInAnyOrderWithMetadataFirst) {
  const char text[] = R"({"metadata": {"deep": [[{"a": null}], 1.5, true]},
    "node_row_ptr": [0, 1], "heads": [[0, 0]],
    "attrs": {"dltype": ["list_str", ["int8"]], "storage_id": ["list_int", [5]],
              "shape": ["list_shape", [[2]]]},
    "arg_nodes": [0], "nodes": [{"inputs": [], "name": "x", "op": "null"}]})";
  const auto graph = ParseGraph(GraphFile(text));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->entries[0].storage_id, 5);
}

TEST(GraphTest, AttrIsReadAsAttrs) {
  const std::string text =
      ExampleWith("\"attrs\": {\n        \"fl", "\"attr\": {\n        \"fl");
  const auto graph = ParseGraph(GraphFile(text));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->nodes[1].function, "fuse_l2_normalize_relu");
}

// TV-10.
TEST(GraphTest, EntryMayHaveTwoOrThreeNumbers) {
  EXPECT_THAT(ParseGraph(GraphFile(ExampleWith("[[1, 0, 0]]", "[[1, 0]]"))),
              IsOk());
  const auto graph =
      ParseGraph(GraphFile(ExampleWith("[[1, 0, 0]]", "[[1, 0, 7]]")));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->heads[0].version, 7u);
}

// TV-17.
TEST(GraphTest, UnknownKeysArePassedOverEverywhere) {
  std::string text = kExample;
  text = Changed(text, "\"arg_nodes\"", "\"a\": {\"nodes\": 1}, \"arg_nodes\"");
  text = Changed(text, "\"op\": \"null\"", "\"b\": [[], {}], \"op\": \"null\"");
  text = Changed(text, "\"storage_id\"", "\"c\": [\"x\", 3], \"storage_id\"");
  text = Changed(text, "\"dtype\"", "\"d\": \"nodes\", \"e\": 2, \"dtype\"");
  const auto graph = ParseGraph(GraphFile(text));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->other_attrs[0],
            (std::pair<std::string, std::string>("c", "[\"x\", 3]")));
}

TEST(GraphTest, OtherNodeAttributesAreKeptInTheirOrder) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("f", "copy", {"x"})
                          .Attr("z", "1")
                          .Attr("hash", "00ff")
                          .Attr("flatten_data", "1")
                          .Build();
  EXPECT_THAT(graph.nodes[1].attrs,
              ElementsAre(std::pair("z", "1"), std::pair("hash", "00ff")));
  EXPECT_TRUE(graph.nodes[1].flatten);
}

// TV-04.
TEST(GraphTest, NamesMayBeAnyUnicodeTextWithEscapes) {
  const std::string text =
      ExampleWith("\"relu0\"", R"("\u00e9\ud83d\ude00/\/\"\n\u0001 ünï")");
  const auto graph = ParseGraph(GraphFile(text));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->nodes[1].name, "é😀//\"\n\x01 ünï");
}

// TV-11.
TEST(GraphTest, NodeWithManyOutputsHasAnEntryForEach) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("s", "split", {"x"}, {{{1}}, {{2}}, {{1}}})
                          .Op("r", "relu", {"s:1"}, {{{2}}})
                          .Head("r")
                          .Build();
  EXPECT_EQ(graph.EntryOf(NodeId{1}, 2), EntryId{3});
  EXPECT_EQ(graph.EntryOf(graph.nodes[2].inputs[0]), EntryId{2});
  EXPECT_EQ(graph.NodeOf(EntryId{3}), NodeId{1});
  EXPECT_EQ(graph.NodeOf(EntryId{4}), NodeId{2});
  EXPECT_EQ(graph.OutputsOf(NodeId{1}), 3u);
}

TEST(GraphTest, NodeWithoutOutputsHasNoEntry) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("none", "copy", {"x"}, {})
                          .Op("r", "relu", {"x"})
                          .Build();
  EXPECT_EQ(graph.OutputsOf(NodeId{1}), 0u);
  EXPECT_EQ(graph.NodeOf(EntryId{1}), NodeId{2});
}

TEST(GraphTest, FileOfAGraphIsReadAndMissingFileIsNamed) {
  EXPECT_THAT(
      GraphText::FromFile("/no/such/graph.json"),
      FailsWith(StatusCode::kNotFound, HasSubstr("/no/such/graph.json: ")));
  EXPECT_THAT(GraphText::FromFile("/"), FailsWith(StatusCode::kInvalidArgument,
                                                  HasSubstr("a directory")));
}

struct KindCase {
  const char* from;
  const char* to;
  const char* diagnostic;  // Line, column, path and what follows.
};

// TV-03, TV-05, TV-08.
// Each place of the example gets a value of a wrong kind.
TEST(GraphDiagnosticTest, WrongKindOfValueIsLocatedExactly) {
  const KindCase rows[] = {
      {"\"op\": \"null\"", "\"op\": 5",
       "graph.json:4:13: /nodes/0/op: 5, expected a string"},
      {"\"op\": \"null\"", "\"op\": \"conv\"",
       "graph.json:4:13: /nodes/0/op: the op \"conv\", expected \"null\" or "
       "\"tvm_op\""},
      {"\"op\": \"null\"", "\"op\": [1]",
       "graph.json:4:13: /nodes/0/op: an array, expected a string"},
      {"\"name\": \"x\"", "\"name\": null",
       "graph.json:5:15: /nodes/0/name: null, expected a string"},
      {"\"name\": \"x\"", "\"name\": {}",
       "graph.json:5:15: /nodes/0/name: an object, expected a string"},
      {"\"inputs\": []", "\"inputs\": {}",
       "graph.json:6:17: /nodes/0/inputs: an object, expected an array"},
      {"\"inputs\": []", "\"inputs\": \"x\"",
       "graph.json:6:17: /nodes/0/inputs: a string, expected an array"},
      {"\"flatten_data\": \"0\"", "\"flatten_data\": 0",
       "graph.json:12:25: /nodes/1/attrs/flatten_data: 0, expected a string"},
      {"\"flatten_data\": \"0\"", "\"flatten_data\": \"no\"",
       "graph.json:12:25: /nodes/1/attrs/flatten_data: \"no\", expected a "
       "string that holds a number from 0 to 2147483647"},
      {"\"num_inputs\": \"1\"", "\"num_inputs\": \"-1\"",
       "graph.json:14:23: /nodes/1/attrs/num_inputs: \"-1\", expected a string "
       "that holds a number from 0 to 2147483647"},
      {"\"num_outputs\": \"1\"", "\"num_outputs\": \"4294967295\"",
       "graph.json:15:24: /nodes/1/attrs/num_outputs: \"4294967295\", expected "
       "a string that holds a number from 0 to 2147483647"},
      {"\"num_outputs\": \"1\"", "\"num_outputs\": \"4294967297\"",
       "graph.json:15:24: /nodes/1/attrs/num_outputs: \"4294967297\", expected "
       "a string that holds a number from 0 to 2147483647"},
      {"[[0, 0, 0]]", "[0]",
       "graph.json:17:18: /nodes/1/inputs/0: 0, expected a node entry: [node, "
       "output] or [node, output, version]"},
      {"[[0, 0, 0]]", "[[0]]",
       "graph.json:17:18: /nodes/1/inputs/0: 1 numbers, expected a node entry: "
       "[node, output] or [node, output, version]"},
      {"[[0, 0, 0]]", "[[0, 0, 0, 0]]",
       "graph.json:17:18: /nodes/1/inputs/0: 4 numbers, expected a node entry: "
       "[node, output] or [node, output, version]"},
      {"[[0, 0, 0]]", "[[0, -1, 0]]",
       "graph.json:17:22: /nodes/1/inputs/0/1: -1, expected a number from 0 to "
       "2147483647"},
      {"[[0, 0, 0]]", "[[0, 1.5, 0]]",
       "graph.json:17:22: /nodes/1/inputs/0/1: 1.5, expected a number that is "
       "not negative"},
      {"[[0, 0, 0]]", "[[0, 0, 99999999999999999999]]",
       "graph.json:17:25: /nodes/1/inputs/0/2: 99999999999999999999, expected "
       "a number that is not negative"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": [true]",
       "graph.json:20:17: /arg_nodes/0: true, expected a number that is not "
       "negative"},
      {"\"arg_nodes\": [0]", "\"arg_nodes\": 0",
       "graph.json:20:16: /arg_nodes: 0, expected an array"},
      {"[0, 1, 2]", "[0, \"1\", 2]",
       "graph.json:21:23: /node_row_ptr/1: a string, expected a number that is "
       "not negative"},
      {"[0, 1, 2]", "[0, 1, 18446744073709551615]",
       "graph.json:21:26: /node_row_ptr/2: 18446744073709551615, expected a "
       "number that is not negative"},
      {"[[1, 0, 0]]", "[null]",
       "graph.json:22:13: /heads/0: null, expected a node entry: [node, "
       "output] or [node, output, version]"},
      {"[\"list_int\", [1, 0]]", "[1, 0]",
       "graph.json:24:20: /attrs/storage_id/0: 1, expected a type tag such as "
       "\"list_int\""},
      {"[\"list_int\", [1, 0]]", "[\"list_str\", [1, 0]]",
       "graph.json:24:20: /attrs/storage_id/0: the tag \"list_str\", expected "
       "\"list_int\""},
      {"[\"list_int\", [1, 0]]", "\"list_int\"",
       "graph.json:24:19: /attrs/storage_id: a string, expected a pair of a "
       "type tag and a value"},
      {"[\"list_int\", [1, 0]]", "[\"list_int\"]",
       "graph.json:24:19: /attrs/storage_id: 1 items, expected a pair of a "
       "type tag and a value"},
      {"[\"list_int\", [1, 0]]", "[\"list_int\", 1]",
       "graph.json:24:32: /attrs/storage_id/1: 1, expected an array"},
      {"[\"list_int\", [1, 0]]", "[\"list_int\", [1, 0.5]]",
       "graph.json:24:36: /attrs/storage_id/1/1: 0.5, expected a whole number"},
      {"        \"float32\",", "        \"float33x\",",
       "graph.json:27:9: /attrs/dltype/1/0: the type \"float33x\", expected a "
       "type such as \"float32\""},
      {"        \"float32\",", "        32,",
       "graph.json:27:9: /attrs/dltype/1/0: 32, expected a type such as "
       "\"float32\""},
      {"[1, 3, 20, 20],", "[1, \"n\", 20, 20],",
       "graph.json:30:13: /attrs/shape/1/0/1: a string, expected a whole "
       "number"},
      {"[1, 3, 20, 20],", "1,",
       "graph.json:30:9: /attrs/shape/1/0: 1, expected an array of dimensions"},
  };
  for (const KindCase& row : rows) {
    const auto diagnostics =
        DiagnosticsOf(GraphFile(ExampleWith(row.from, row.to)));
    ASSERT_THAT(diagnostics, Not(IsEmpty())) << row.diagnostic;
    EXPECT_EQ(diagnostics[0], row.diagnostic);
  }
}

TEST(GraphDiagnosticTest, WhatIsNotAGraphSaysSo) {
  for (const char* text : {"[]", "5", "\"graph.json\"", "null", "[[[1]]]"}) {
    EXPECT_THAT(ParseGraph(GraphFile(text)),
                FailsWith(StatusCode::kDataLoss,
                          AllOf(StartsWith("graph.json:1:1: "),
                                HasSubstr("is this the graph's text?"))))
        << text;
  }
  for (const char* text : {"", " ", "graph.json", "{\"nodes\"", "\xFF\xFE{"}) {
    EXPECT_THAT(ParseGraph(GraphFile(text)),
                FailsWith(StatusCode::kDataLoss, HasSubstr("not JSON: ")))
        << text;
  }
}

TEST(GraphDiagnosticTest, TextBehindTheGraphIsRefused) {
  EXPECT_THAT(ParseGraph(GraphFile(std::string(kExample) + "}")),
              FailsWith(StatusCode::kDataLoss,
                        StartsWith("graph.json:35:1: not JSON: ")));
}

// TV-04.
TEST(GraphDiagnosticTest, MissingKeyIsNamedByItsPath) {
  const char* const paths[] = {"/nodes",
                               "/arg_nodes",
                               "/heads",
                               "/attrs",
                               "/node_row_ptr",
                               "/nodes/2/op",
                               "/nodes/2/name",
                               "/nodes/2/inputs",
                               "/nodes/2/attrs",
                               "/nodes/2/attrs/func_name",
                               "/nodes/2/attrs/num_inputs",
                               "/nodes/2/attrs/num_outputs",
                               "/nodes/2/attrs/flatten_data",
                               "/attrs/shape",
                               "/attrs/dltype",
                               "/attrs/storage_id"};
  for (const std::string path : paths) {
    const std::string key = path.substr(path.find_last_of('/') + 1);
    EXPECT_THAT(DiagnosticsOf(AddThenRelu().Without(path).File()),
                Contains(AllOf(HasSubstr(": " + path + ": nothing, expected "),
                               HasSubstr(key))));
  }
}

TEST(GraphDiagnosticTest, MissingKeyIsShownAtTheValueAroundIt) {
  const std::string text = ExampleWith("      \"name\": \"x\",\n", "");
  EXPECT_THAT(DiagnosticsOf(GraphFile(text)),
              ElementsAre("graph.json:3:5: /nodes/0/name: nothing, expected "
                          "the key name"));
}

TEST(GraphDiagnosticTest, DoubledKeyIsShownWhereItComesAgain) {
  const KindCase rows[] = {
      {"\"heads\"", "\"arg_nodes\": [0],\n  \"heads\"",
       "graph.json:22:16: /arg_nodes: the key \"arg_nodes\" for the second "
       "time"},
      {"\"name\": \"x\"", "\"name\": \"a\",\n \"name\": \"x\"",
       "graph.json:6:10: /nodes/0/name: the key \"name\" for the second time"},
      {"\"num_inputs\"", "\"func_name\": \"f\",\n \"num_inputs\"",
       "graph.json:14:22: /nodes/1/attrs/func_name: the key \"func_name\" for "
       "the second time"},
      {"\"num_inputs\"", "\"hash\": \"f\",\n \"hash\": \"g\", \"num_inputs\"",
       "graph.json:15:10: /nodes/1/attrs/hash: the key \"hash\" for the second "
       "time"},
      {"\"dltype\"", "\"storage_id\": [\"list_int\", [1, 0]],\n \"dltype\"",
       "graph.json:26:19: /attrs/storage_id: the key \"storage_id\" for the "
       "second time"},
      {"      \"inputs\": [[0", "      \"attr\": {},\n      \"inputs\": [[0",
       "graph.json:17:15: /nodes/1/attr: the key \"attr\" for the second time"},
  };
  for (const KindCase& row : rows) {
    EXPECT_THAT(DiagnosticsOf(GraphFile(ExampleWith(row.from, row.to))),
                Contains(row.diagnostic));
  }
}

TEST(GraphDiagnosticTest, AllFaultsAreFoundInOnePass) {
  std::string text = ExampleWith("\"op\": \"null\"", "\"op\": 5");
  text = Changed(text, "\"arg_nodes\": [0]", "\"arg_nodes\": [-1]");
  text = Changed(text, "        \"float32\",", "        \"floot\",");
  EXPECT_THAT(
      DiagnosticsOf(GraphFile(text)),
      AllOf(Contains(StartsWith("graph.json:4:13: /nodes/0/op: ")),
            Contains(StartsWith("graph.json:20:17: /arg_nodes/0: ")),
            Contains(StartsWith("graph.json:27:9: /attrs/dltype/1/0: "))));
}

TEST(GraphDiagnosticTest, StatusCountsTheFaultsItDoesNotShow) {
  std::string text = ExampleWith("\"op\": \"null\"", "\"op\": 5");
  text = Changed(text, "\"name\": \"x\"", "\"name\": 6");
  EXPECT_THAT(ParseGraph(GraphFile(text)),
              FailsWith(StatusCode::kDataLoss,
                        AllOf(StartsWith("graph.json:4:13: /nodes/0/op: 5"),
                              HasSubstr("and 1 more fault "))));
}

// TV-02.
TEST(GraphDiagnosticTest, ColumnsCountBytesAndLinesEndInNewlines) {
  const char text[] = "{\r\n\t\"é\": 1, \"nodes\": 5}";
  EXPECT_THAT(DiagnosticsOf(GraphFile(text)),
              Contains("graph.json:2:20: /nodes: 5, expected an array"));
}

TEST(HostileGraphTest, DeepNestingIsRefusedWithoutRecursion) {
  const std::string deep(1000000, '[');
  EXPECT_FALSE(ParseGraph(GraphFile(deep)).ok());
  EXPECT_FALSE(ParseGraph(GraphFile("{\"nodes\":" + deep)).ok());
  EXPECT_THAT(DiagnosticsOf(GraphFile("{\"x\":" + deep)),
              Contains(StartsWith("graph.json:1:6: /x: arrays and objects")));
}

TEST(GraphTest, UnknownValueMayBeNested) {
  const std::string deep = std::string(63, '[') + std::string(63, ']');
  EXPECT_THAT(ParseGraph(GraphFile(ExampleWith("{", "{\"x\":" + deep + ","))),
              IsOk());
}

TEST(HostileGraphTest, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  const auto graphs = {
      AddThenRelu().With("/nodes/2/attrs/num_outputs", "\"2147483647\""),
      AddThenRelu().With("/node_row_ptr/4", "2147483647"),
      AddThenRelu()
          .With("/nodes/2/attrs/num_outputs", "\"2147483647\"")
          .With("/node_row_ptr", "[0, 1, 2, 2147483649, 2147483650]"),
  };
  for (const GraphBuilder& graph : graphs) {
    EXPECT_THAT(ParseGraph(graph.File()),
                FailsWith(StatusCode::kDataLoss, HasSubstr("graph.json:")));
  }
}

// Parses, and checks what a resulting graph guarantees.
bool ParsesCleanly(const std::string& text) {
  const auto graph = ParseGraph(GraphFile(text));
  if (!graph.ok()) return graph.status().code() == StatusCode::kDataLoss;
  return ParseGraph(GraphFile(WriteGraph(*graph))).ok();
}

TEST(HostileGraphTest, EveryTruncationIsRefused) {
  const std::string text = kExample;
  const size_t end = text.find_last_of('}');
  for (size_t size = 0; size <= end; ++size) {
    EXPECT_THAT(ParseGraph(GraphFile(text.substr(0, size))),
                FailsWith(StatusCode::kDataLoss, HasSubstr("not JSON")))
        << size;
  }
}

TEST(HostileGraphTest, EveryFlippedByteParsesOrFailsCleanly) {
  std::string text = kExample;
  for (char& byte : text) {
    const char kept = byte;
    for (const int flip : {0x01, 0x02, 0x04, 0x10, 0x20, 0x80, 0xFF}) {
      byte = static_cast<char>(kept ^ flip);
      ASSERT_TRUE(ParsesCleanly(text)) << text;
    }
    byte = kept;
  }
}

TEST(HostileGraphTest, EveryRemovedOrDoubledLineParsesOrFailsCleanly) {
  const std::string text = kExample;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start) + 1;
    const std::string line = text.substr(start, end - start);
    EXPECT_TRUE(ParsesCleanly(Changed(text, line, ""))) << line;
    EXPECT_TRUE(ParsesCleanly(Changed(text, line, line + line))) << line;
    start = end;
  }
}

TEST(BigGraphTest, HundredThousandNodesAreReadInSeconds) {
  Graph chain = AddThenRelu().Build();
  for (uint32_t n = 4; n < 100000; ++n) {
    chain.nodes.push_back(chain.nodes[3]);
    chain.nodes.back().inputs[0].node = n - 1;
    chain.entries.push_back(chain.entries[3]);
    chain.node_row_ptr.push_back(n + 1);
  }
  const std::string text = WriteGraph(chain);
  const auto start = std::chrono::steady_clock::now();
  const auto graph = ParseGraph(GraphFile(text));
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->nodes.size(), 100000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace nodewise
