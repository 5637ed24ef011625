#include "nodewise/lower/lower.h"

#include <gtest/gtest.h>

#include <set>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_json.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::vector<std::string> NamesOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) names.push_back(node.name);
  return names;
}

Network NegAbs() {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId m = b.Op("Neg", {x}, {}, {"m"}, "first")[0];
  b.Out(b.Op("Abs", {m}, {}, {"y"}, "second"));
  return std::move(b.net);
}

TEST(LowerTest, EveryOperationIsANodeOfItsName) {
  const auto lowered = Lower(NegAbs(), "net", kPlain);
  ASSERT_THAT(lowered, IsOk());
  const Graph& graph = lowered->graph;
  EXPECT_THAT(NamesOf(graph), ElementsAre("x", "first", "second"));
  EXPECT_EQ(graph.nodes[1].function, "nodewise_neg");
  EXPECT_TRUE(HasBuiltInFunctions(graph));
  ExpectAsInterpreted(NegAbs(), {Floats({1, -2})}, kPlain);
}

TEST(LowerTest, OutputsAreCalledAsTheNetworks) {
  const auto lowered = Lower(NegAbs(), "net");
  ASSERT_THAT(lowered, IsOk());
  const auto executor = ExecutorOf(*lowered);
  ASSERT_THAT(executor, IsOk());
  EXPECT_EQ((*executor)->OutputInfo(0).name, "y");
}

TEST(LowerTest, ConstantsAreParameters) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId w = b.Const("w", Floats({3, 4}));
  b.Const("unused", Floats({1}));
  b.Out(b.Op("Add", {x, w}, {}, {}, "sum"));
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  EXPECT_THAT(NamesOf(lowered->graph), ElementsAre("x", "w", "sum"));
  ASSERT_EQ(lowered->params.size(), 1u);
  EXPECT_EQ(lowered->params[0].name, "w");
  ExpectAsInterpreted(b.net, {Floats({1, 2})});
}

TEST(LowerTest, ConstantsThatDecideTypesArePartOfTheNode) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId shape = b.Const("shape", MakeTensor<int64_t>({2}, {3, -1}));
  b.Out(b.Op("Reshape", {x, shape}));
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  EXPECT_TRUE(lowered->params.empty());
  EXPECT_EQ(lowered->graph.nodes[1].num_inputs, 1u);
  ExpectAsInterpreted(b.net, {MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
}

TEST(LowerTest, ShapesThatAreComputedAreReadByTheNode) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId like = b.In("like", {6, 1});
  const ValueId shape = b.Op("Shape", {like})[0];
  b.Out(b.Op("Reshape", {x, shape}));
  ExpectAsInterpreted(b.net, {MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                              MakeTensor<float>({6, 1}, {0, 0, 0, 0, 0, 0})});
}

TEST(LowerTest, EqualRegionsShareAFunctionAndOthersDoNot) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId a = b.Op("LeakyRelu", {x})[0];
  const ValueId c = b.Op("LeakyRelu", {a})[0];
  b.Out(b.Op("LeakyRelu", {c}, {{"alpha", AttrValue(0.5f)}}));
  const auto lowered = Lower(b.net, "net", kPlain);
  ASSERT_THAT(lowered, IsOk());
  const auto& nodes = lowered->graph.nodes;
  EXPECT_EQ(nodes[1].function, "nodewise_leakyrelu");
  EXPECT_EQ(nodes[2].function, "nodewise_leakyrelu");
  EXPECT_EQ(nodes[3].function, "nodewise_leakyrelu_1");
}

TEST(LowerTest, AnOutputMayBeAnInputAConstantOrGivenTwice) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId c = b.Const("c", Floats({7}));
  const ValueId y = b.Op("Neg", {x}, {}, {"y"})[0];
  b.Out({y, x, c, y, x});
  ExpectAsInterpreted(b.net, {Floats({1, 2})});
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  const auto executor = ExecutorOf(*lowered).value();
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  std::vector<std::string> names;
  const auto outputs = FetchOutputs(*executor).value();
  for (const NamedTensor& output : outputs) {
    names.push_back(output.name);
  }
  EXPECT_THAT(names, ElementsAre("y", "x", "c", "y_2", "x_2"));
}

TEST(LowerTest, OutputsThatAreNotWantedHaveNoEntries) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 1, 1});
  const ValueId w = b.Const("w", MakeTensor<float>({1, 1, 1}, {2}));
  const auto made = b.Op(
      "RNN", {x, w, w}, {{"hidden_size", AttrValue(int64_t{1})}}, {"", "last"});
  b.Out({made[1]});
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  EXPECT_EQ(lowered->graph.entries.size(), 3u);
  ExpectAsInterpreted(b.net, {MakeTensor<float>({2, 1, 1}, {1, 2})});
}

TEST(LowerTest, ScalarsAndTensorsWithoutElementsAreTensors) {
  NetBuilder b;
  const ValueId x = b.In("x", {0, 3});
  const ValueId s = b.In("s", {});
  const ValueId y = b.Op("Add", {x, s})[0];
  b.Out({y, b.Op("Neg", {s})[0]});
  ExpectAsInterpreted(
      b.net, {MakeTensor<float>({0, 3}, {}), MakeTensor<float>({}, {2})});
}

TEST(LowerTest, AnOperationWithoutInputsIsANode) {
  NetBuilder b;
  const ValueId shape = b.Const("shape", MakeTensor<int64_t>({1}, {3}));
  b.Out(b.Op("ConstantOfShape", {shape}));
  ExpectAsInterpreted(b.net, {});
}

TEST(LowerTest, BarriersAreControlDependencies) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const OperationId first = b.TryOp("Neg", {x}).value();
  const OperationId second = b.TryOp("Abs", {x}).value();
  b.Out(
      {b.net.operation(first).outputs[0], b.net.operation(second).outputs[0]});
  ASSERT_THAT(b.net.RunAfter(second, first), IsOk());
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  EXPECT_EQ(lowered->graph.nodes[1].function, "nodewise_abs");
  EXPECT_THAT(lowered->graph.nodes[2].control_deps, ElementsAre(1));
  ExpectAsInterpreted(b.net, {Floats({1, -2})});
}

TEST(LowerTest, AnOperationMayBeCalledAsAnInput) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("Neg", {x}, {}, {"y"}, "x"));
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  EXPECT_THAT(NamesOf(lowered->graph), ElementsAre("x", "x_2"));
}

TEST(LowerTest, BodiesOfControlFlowRun) {
  const auto body = [](const char* kind) {
    NetBuilder b;
    const ValueId x = b.In("x", {2});
    const ValueId w = b.Const("w", Floats({0.1f, 3}));
    b.Out(b.Op(kind, {x, w}));
    return Subgraph{ShareNetwork(std::move(b.net)), 1};
  };
  NetBuilder b;
  const ValueId condition = b.In("condition", {}, kBool);
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("If", {condition, x, x},
             {{"then_branch", AttrValue(body("Add"))},
              {"else_branch", AttrValue(body("Mul"))}}));
  for (const uint8_t truth : {0, 1}) {
    ExpectAsInterpreted(
        b.net, {MakeTensor<uint8_t>({}, {truth}, kBool), Floats({1, 2})});
  }
}

// TVM's executor refuses a graph that leaves out one.
TEST(LowerTest, StoragesAreNumberedWithoutGaps) {
  NetBuilder b;
  std::vector<ValueId> x = {b.In("x", {4})};
  for (int i = 0; i < 6; ++i) x.push_back(b.Op("Softmax", {x.back()})[0]);
  b.Out(b.Op("Sum", {x[4], x[5], x[6]}));
  const auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  std::set<int32_t> ids;
  for (const GraphEntry& entry : lowered->graph.entries) {
    ids.insert(entry.storage_id);
  }
  EXPECT_LT(ids.size(), lowered->graph.entries.size());
  EXPECT_EQ(*ids.begin(), 0);
  EXPECT_EQ(*ids.rbegin() + 1, static_cast<int32_t>(ids.size()));
}

TEST(LowerTest, OpenSizesAreRefusedWithTheOptionsThatGiveThem) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, Dim::Named("n"), Dim()});
  b.Out(b.Op("Neg", {x}));
  EXPECT_THAT(
      Lower(b.net, "net"),
      FailsWith(kUnimplemented,
                AllOf(HasSubstr("input x: is float32[2, n, ?]"),
                      HasSubstr("dims n=N or ImportOptions::dims x:2=N or "
                                "ImportOptions::freeze x="))));
}

TEST(LowerTest, NamesThatAreNotTextAreRefused) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x\xff", {2})}));
  EXPECT_THAT(Lower(b.net, "net"),
              FailsWith(kUnimplemented, HasSubstr("is not UTF-8")));
}

TEST(LowerTest, AConstantMayDecideTypesAndBeAnOperandToo) {
  NetBuilder b;
  const ValueId k = b.Const("k", MakeTensor<int64_t>({1}, {1}));
  b.Out(b.Op("Reshape", {k, k}, {}, {"k_"}));
  ExpectAsInterpreted(b.net, {});
}

TEST(LowerTest, SizesThatDataDecidesAreRefusedByName) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("NonZero", {x}, {}, {"places"}, "find"));
  EXPECT_THAT(Lower(b.net, "net"),
              FailsWith(kUnimplemented,
                        HasSubstr("operation find (NonZero): output places: is "
                                  "int64[1, ?]")));
}

}  // namespace
}  // namespace nodewise
