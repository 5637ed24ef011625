#include "nodewise/graph/graph_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNever = Lifetime::kNever;
constexpr int64_t kBeforeTheRun = Lifetime::kBeforeTheRun;

// A float32 (4,) in storage `id`.
TensorSpec In(int id) { return {{4}, "float32", id}; }

// A graph with its plan and the index of both.
struct Indexed {
  explicit Indexed(const GraphBuilder& builder) : graph(builder.Build()) {}

  const Graph graph;
  const StoragePlan plan = PlanStorage(graph, kDLCPU).value();
  const GraphIndex index{graph, plan};
};

GraphBuilder TwoCalledA() {
  return GraphBuilder()
      .Input("x")
      .Op("a", "relu", {"x"}, {{}, {}})
      .Op("a", "relu", {"x"})
      .Op("b:1", "relu", {"x"})
      .Head("#3");
}

// Nodes 1 and 2 reshape x where it lies, node 4 does the same for entry 3. Node
// 6 copies, since its slot is another than its input's.
GraphBuilder Reshaped() {
  return GraphBuilder()
      .Input("x", In(0))
      .Op("n", "__nop", {"x"}, {In(0)})
      .Op("m", "__nop", {"n"}, {In(0)})
      .Op("f", "inc", {"m"}, {In(1)})
      .Op("g", "__nop", {"f"}, {In(1)})
      .Op("h", "inc", {"x"}, {In(2)})
      .Op("k", "__nop", {"g"}, {In(3)})
      .Op("l", "add", {"k", "h"}, {In(4)})
      .Head("l");
}

// --- Names ---

std::vector<std::string> KeysOf(const Graph& graph) {
  const GraphIndex index(graph);
  std::vector<std::string> keys;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    keys.push_back(index.KeyOf(NodeId{n}));
  }
  return keys;
}

TEST(GraphIndexTest, KeyHasTheNumberOnlyWhereNamesAreNotUnique) {
  const struct {
    std::vector<std::string> names;
    std::vector<std::string> keys;
  } kRows[] = {
      {{"a", "b"}, {"a", "b"}},
      {{"a", "b", "a"}, {"a#0", "b", "a#2"}},
      {{"", ""}, {"#0", "#1"}},
      // A key never is the name of another node.
      {{"a#2", "a", "a"}, {"a#2", "a#1", "a#2#2"}},
      {{"a#1", "a", "a", "a#1"}, {"a#1#0", "a#1#1", "a#2", "a#1#3"}},
  };
  for (const auto& row : kRows) {
    GraphBuilder builder;
    for (const std::string& name : row.names) builder.Input(name);
    EXPECT_THAT(KeysOf(builder.Build()), ElementsAreArray(row.keys));
  }
}

TEST(GraphIndexTest, EntryIsCalledAfterItsNodeAndOutput) {
  const Indexed indexed(TwoCalledA());
  EXPECT_EQ(indexed.index.KeyOf(EntryId{2}), "a#1:1");
  EXPECT_EQ(indexed.index.TitleOf(NodeId{1}), "node 1 (a)");
  EXPECT_EQ(indexed.index.TitleOf(EntryId{2}), "output 1 of node 1 (a)");
}

// TV-47.
TEST(GraphIndexTest, NodeIsFoundByNameKeyAndNumber) {
  const Indexed indexed(TwoCalledA());
  EXPECT_EQ(indexed.index.FindNode("x").value(), NodeId{0});
  EXPECT_EQ(indexed.index.FindNode("a#2").value(), NodeId{2});
  EXPECT_EQ(indexed.index.FindNode("#3").value(), NodeId{3});
}

TEST(GraphIndexTest, NameOfSeveralNodesIsRefusedWithTheirKeys) {
  EXPECT_THAT(Indexed(TwoCalledA()).index.FindNode("a"),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("2 nodes have that name, expected one of "
                                  "a#1, a#2")));
}

TEST(GraphIndexTest, OfManyKeysTheFirstAreListed) {
  GraphBuilder builder;
  for (int i = 0; i < 21; ++i) builder.Input("a");
  EXPECT_THAT(Indexed(builder.Head("#0")).index.FindNode("a"),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("21 nodes have that name"),
                              EndsWith("a#18, a#19, ..."))));
}

TEST(GraphIndexTest, UnknownNameGetsTheNearest) {
  EXPECT_THAT(Indexed(AddThenRelu()).index.FindNode("relu"),
              FailsWith(StatusCode::kNotFound, HasSubstr("relu0")));
}

TEST(GraphIndexTest, EntryIsOutputZeroUnlessItSaysAnother) {
  const Indexed indexed(TwoCalledA());
  EXPECT_EQ(indexed.index.FindEntry("a#1").value(), EntryId{1});
  EXPECT_EQ(indexed.index.FindEntry("a#1:1").value(), EntryId{2});
  EXPECT_EQ(indexed.index.FindEntry("b:1").value(), EntryId{4});
}

TEST(GraphIndexTest, OutputThatANodeDoesNotHaveIsRefused) {
  const Indexed indexed(GraphBuilder()
                            .Input("x")
                            .Op("sink", "f", {"x"}, {})
                            .Op("b", "f", {"x"})
                            .Head("b"));
  EXPECT_THAT(indexed.index.FindEntry("b:1"),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("has 1")));
  EXPECT_THAT(indexed.index.FindEntry("sink"),
              FailsWith(StatusCode::kOutOfRange,
                        HasSubstr("output 0 of node sink, which has 0")));
}

TEST(GraphIndexTest, NumberThatTheGraphDoesNotHaveIsRefused) {
  const Indexed indexed(AddThenRelu());
  EXPECT_EQ(indexed.index.NodeAt(3).value(), NodeId{3});
  EXPECT_EQ(indexed.index.EntryAt(0).value(), EntryId{0});
  for (const int64_t number : {int64_t{-1}, int64_t{4}, int64_t{1} << 32}) {
    const std::string text = std::to_string(number);
    EXPECT_THAT(indexed.index.NodeAt(number),
                FailsWith(StatusCode::kOutOfRange,
                          "node " + text + ": the graph has 4 nodes"));
    EXPECT_THAT(indexed.index.EntryAt(number),
                FailsWith(StatusCode::kOutOfRange,
                          "entry " + text + ": the graph has 4 entries"));
  }
}

// --- Entries ---

// TV-47.
TEST(GraphIndexTest, EntryKnowsItsNodeItsOutputAndItsSize) {
  const Indexed indexed(GraphBuilder()
                            .Input("x", {{2, 3}, "int8"})
                            .Op("sink", "f", {"x"}, {})
                            .Op("s", "split", {"x"}, {{{}}, {{0}}, {{3}}})
                            .Head("s:2"));
  const struct {
    uint32_t node;
    uint32_t output;
    size_t bytes;
  } kRows[] = {{0, 0, 6}, {2, 0, 4}, {2, 1, 0}, {2, 2, 12}};
  for (uint32_t e = 0; e < std::size(kRows); ++e) {
    EXPECT_EQ(indexed.index.NodeOf(EntryId{e}), NodeId{kRows[e].node});
    EXPECT_EQ(indexed.index.OutputOf(EntryId{e}), kRows[e].output);
    EXPECT_EQ(indexed.index.BytesOf(EntryId{e}), kRows[e].bytes);
  }
}

TEST(GraphIndexTest, ReshapeThatSharesItsInputsSlotIsTheSameTensor) {
  const Indexed indexed(Reshaped());
  const uint32_t bases[] = {0, 0, 0, 3, 3, 5, 6, 7};
  const bool is_free[] = {true, true, true, false, true, false, false, false};
  for (uint32_t i = 0; i < std::size(bases); ++i) {
    EXPECT_EQ(indexed.index.BaseOf(EntryId{i}), EntryId{bases[i]});
    EXPECT_EQ(indexed.index.IsBase(EntryId{i}), bases[i] == i);
    EXPECT_EQ(indexed.index.IsFree(NodeId{i}), is_free[i]);
  }
}

TEST(GraphIndexTest, WithoutAPlanEveryEntryIsATensorOfItsOwn) {
  const Graph graph = Reshaped().Build();
  const GraphIndex index(graph);
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    EXPECT_TRUE(index.IsBase(EntryId{e}));
  }
  EXPECT_TRUE(index.IsFree(NodeId{0}));
  EXPECT_FALSE(index.IsFree(NodeId{1}));
  EXPECT_EQ(index.LifetimeOf(EntryId{0}).last_read, 5);
}

TEST(GraphIndexTest, ReaderIsListedOnceForEachEntryThatItReads) {
  const Indexed indexed(GraphBuilder()
                            .Input("x")
                            .Input("unread")
                            .Op("a", "add", {"x", "x"})
                            .Op("s", "split", {"x"}, {{}, {}})
                            .Op("b", "add", {"a", "s:1"})
                            .Head("a")
                            .Head("b"));
  const std::vector<NodeId> readers[] = {
      {NodeId{2}, NodeId{3}}, {}, {NodeId{4}}, {}, {NodeId{4}}, {}};
  for (uint32_t e = 0; e < std::size(readers); ++e) {
    EXPECT_THAT(indexed.index.ReadersOf(EntryId{e}),
                ElementsAreArray(readers[e]));
  }
}

// --- Lifetimes ---

struct Life {
  int64_t written;
  int64_t last_read;
};

void ExpectLives(const Indexed& indexed, const std::vector<Life>& lives) {
  ASSERT_EQ(lives.size(), indexed.graph.entries.size());
  for (uint32_t e = 0; e < lives.size(); ++e) {
    const Lifetime& life = indexed.index.LifetimeOf(EntryId{e});
    EXPECT_EQ(life.written, lives[e].written) << "entry " << e;
    EXPECT_EQ(life.last_read, lives[e].last_read) << "entry " << e;
  }
}

TEST(GraphIndexTest, TensorLivesFromItsNodeToItsLastReader) {
  ExpectLives(Indexed(GraphBuilder()
                          .Input("x")
                          .Input("unread")
                          .Op("a", "inc", {"x"})
                          .Op("s", "split", {"a"}, {{}, {}})
                          .Input("late")
                          .Op("b", "add", {"a", "late"})
                          .Head("b")
                          .Head("x")),
              {{kBeforeTheRun, 6},
               {kBeforeTheRun, kNever},
               {2, 5},
               {3, kNever},
               {3, kNever},
               {kBeforeTheRun, 5},
               {5, 6}});
}

TEST(GraphIndexTest, ReshapesLengthenTheLifeOfTheirTensor) {
  ExpectLives(Indexed(Reshaped()), {{kBeforeTheRun, 5},
                                    {kBeforeTheRun, 5},
                                    {kBeforeTheRun, 5},
                                    {3, 6},
                                    {3, 6},
                                    {5, 7},
                                    {6, 7},
                                    {7, 8}});
}

TEST(GraphIndexTest, ReshapeThatNothingReadsReadsNothing) {
  ExpectLives(Indexed(GraphBuilder()
                          .Input("x", In(0))
                          .Op("a", "inc", {"x"}, {In(1)})
                          .Op("n", "__nop", {"x"}, {In(0)})
                          .Head("a")),
              {{kBeforeTheRun, 1}, {1, 3}, {kBeforeTheRun, 1}});
}

TEST(GraphIndexTest, OutputOfTheGraphLivesToTheEndUnderAnyOfItsNames) {
  ExpectLives(Indexed(GraphBuilder()
                          .Input("x", In(0))
                          .Op("a", "inc", {"x"}, {In(1)})
                          .Op("n", "__nop", {"a"}, {In(1)})
                          .Head("n")),
              {{kBeforeTheRun, 1}, {1, 3}, {1, 3}});
}

TEST(GraphIndexTest, TensorsOfASlotAreInTheOrderOfTheirWriting) {
  const Indexed indexed(GraphBuilder()
                            .Input("x", In(7))
                            .Op("a", "inc", {"x"}, {In(3)})
                            .Op("n", "__nop", {"a"}, {In(3)})
                            .Input("late", In(3))
                            .Op("b", "add", {"n", "late"}, {In(3)})
                            .Head("b"));
  EXPECT_THAT(indexed.index.TensorsIn(0), ElementsAre(EntryId{0}));
  EXPECT_THAT(indexed.index.TensorsIn(1),
              ElementsAre(EntryId{3}, EntryId{1}, EntryId{4}));
}

TEST(GraphIndexTest, GraphWithoutNodesHasAnIndex) {
  const Indexed indexed{GraphBuilder()};
  EXPECT_THAT(indexed.index.FindNode("x"),
              FailsWith(StatusCode::kNotFound, HasSubstr("node x")));
  EXPECT_THAT(indexed.plan.slots, IsEmpty());
}

}  // namespace
}  // namespace nodewise
