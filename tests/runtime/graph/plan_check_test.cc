// CheckPlan: storage that is used for two things at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A float32 (4,) in storage `id`.
TensorSpec In(int id) { return {{4}, "float32", id}; }

// "error" or "warning", and the fault.
std::vector<std::string> PlanDiagnostics(const GraphBuilder& builder) {
  const Graph graph = builder.Build();
  DiagnosticList diagnostics;
  CheckPlan(graph, PlanStorage(graph, kDLCPU).value(), &diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    const bool error = diagnostic.severity == Severity::kError;
    lines.push_back((error ? "error " : "warning ") + diagnostic.ToString());
  }
  return lines;
}

TEST(CheckPlanTest, StorageThatIsReusedInTimeIsRight) {
  EXPECT_THAT(PlanDiagnostics(GraphBuilder()
                                  .Input("x", In(0))
                                  .Op("a", "copy", {"x"}, {In(1)})
                                  .Op("b", "copy", {"a"}, {In(2)})
                                  .Op("c", "copy", {"b"}, {In(1)})
                                  .Op("d", "copy", {"c"}, {In(2)})
                                  .Head("d")),
              IsEmpty());
}

// TV-12.
TEST(CheckPlanTest, TensorOverwrittenBeforeItsLastReaderIsAnError) {
  const auto diagnostics =
      PlanDiagnostics(GraphBuilder()
                          .Input("x", In(0))
                          .Op("a", "copy", {"x"}, {In(1)})
                          .Op("b", "copy", {"x"}, {In(1)})
                          .Op("c", "add", {"a", "b"}, {In(2)})
                          .Head("c"));
  EXPECT_THAT(
      diagnostics,
      ElementsAre(AllOf(
          HasSubstr("error graph.json:"),
          HasSubstr("/attrs/storage_id/1/2: storage 1, where output 0 of node "
                    "2 (b) overwrites output 0 of node 1 (a), which node 3 "
                    "(c) reads later"))));
}

TEST(CheckPlanTest, OutputOfTheGraphThatIsOverwrittenIsAnError) {
  const auto diagnostics = PlanDiagnostics(GraphBuilder()
                                               .Input("x", In(0))
                                               .Op("a", "copy", {"x"}, {In(1)})
                                               .Op("b", "copy", {"a"}, {In(2)})
                                               .Op("c", "copy", {"b"}, {In(1)})
                                               .Head("a")
                                               .Head("c"));
  EXPECT_THAT(diagnostics,
              ElementsAre(AllOf(HasSubstr("error "),
                                HasSubstr("overwrites output 0 of node 1 (a), "
                                          "which is the graph's output 0"))));
}

// Returns "output:node that it was lost to" of each lost output.
std::vector<std::string> LostIn(const GraphBuilder& builder) {
  const Graph graph = builder.Build();
  const StoragePlan plan = PlanStorage(graph, kDLCPU).value();
  std::vector<std::string> lost;
  for (const LostOutput& output : LostOutputs(GraphIndex(graph, plan))) {
    lost.push_back(
        fmt::format("{}:{}", output.output,
                    graph.node(graph.NodeOf(output.written_over_by)).name));
  }
  return lost;
}

TEST(LostOutputsTest, OutputWhoseStorageHoldsALaterTensorInTheEndIsLost) {
  EXPECT_THAT(LostIn(GraphBuilder()
                         .Input("x", In(0))
                         .Op("a", "copy", {"x"}, {In(1)})
                         .Op("b", "copy", {"a"}, {In(1)})
                         .Op("c", "copy", {"b"}, {In(1)})
                         .Op("d", "copy", {"c"}, {In(0)})
                         .Head("c")
                         .Head("a")
                         .Head("x")),
              ElementsAre("1:c", "2:d"));
}

TEST(LostOutputsTest, OutputWrittenOverWhatWasThereBeforeIsKept) {
  EXPECT_THAT(LostIn(GraphBuilder()
                         .Input("x", In(0))
                         .Op("a", "copy", {"x"}, {In(1)})
                         .Op("b", "copy", {"a"}, {In(2)})
                         .Op("c", "copy", {"b"}, {In(1)})
                         .Head("b")
                         .Head("c")),
              IsEmpty());
}

TEST(CheckPlanTest, InputOverwrittenWhileItIsNeededIsAnError) {
  const auto diagnostics =
      PlanDiagnostics(GraphBuilder()
                          .Input("w", In(0))
                          .Op("a", "copy", {"w"}, {In(1)})
                          .Op("b", "copy", {"a"}, {In(0)})
                          .Op("c", "add", {"b", "w"}, {In(2)})
                          .Head("c"));
  EXPECT_THAT(diagnostics,
              ElementsAre(AllOf(HasSubstr("error "),
                                HasSubstr("overwrites output 0 of node "
                                          "0 (w), which node 3 (c)"))));
}

TEST(CheckPlanTest, InputOverwrittenAfterItsLastReaderIsAWarning) {
  const auto diagnostics = PlanDiagnostics(GraphBuilder()
                                               .Input("w", In(0))
                                               .Op("a", "copy", {"w"}, {In(1)})
                                               .Op("b", "copy", {"a"}, {In(0)})
                                               .Head("b"));
  EXPECT_THAT(
      diagnostics,
      ElementsAre(AllOf(HasSubstr("warning "),
                        HasSubstr("overwrites the input w, expected another "
                                  "storage, or a second run needs"))));
}

TEST(CheckPlanTest, OperatorInPlaceIsAWarning) {
  const auto diagnostics = PlanDiagnostics(GraphBuilder()
                                               .Input("x", In(0))
                                               .Op("a", "copy", {"x"}, {In(1)})
                                               .Op("b", "relu", {"a"}, {In(1)})
                                               .Head("b"));
  EXPECT_THAT(diagnostics,
              ElementsAre(AllOf(HasSubstr("warning "),
                                HasSubstr("(b) is written over output 0 of "
                                          "node 1 (a), which the same node"))));
}

TEST(CheckPlanTest, NopSharesItsInputsStorageAndLengthensItsLife) {
  GraphBuilder graph;
  graph.Input("x", In(0))
      .Op("a", "copy", {"x"}, {In(1)})
      .Op("n", "__nop", {"a"}, {In(1)})
      .Op("b", "copy", {"x"}, {In(2)});
  EXPECT_THAT(PlanDiagnostics(GraphBuilder(graph).Head("n")), IsEmpty());
  graph.Op("c", "copy", {"x"}, {In(1)}).Op("d", "add", {"n", "c"}, {In(3)});
  EXPECT_THAT(PlanDiagnostics(graph.Head("d")),
              ElementsAre(HasSubstr("(c) overwrites output 0 of node 1 (a), "
                                    "which node 5 (d) reads later")));
}

TEST(CheckPlanTest, NopThatNothingReadsKeepsNothingAlive) {
  EXPECT_THAT(PlanDiagnostics(GraphBuilder()
                                  .Input("x", In(0))
                                  .Op("a", "copy", {"x"}, {In(1)})
                                  .Op("b", "copy", {"a"}, {In(2)})
                                  .Op("c", "copy", {"b"}, {In(1)})
                                  .Op("n", "__nop", {"a"}, {In(1)})
                                  .Head("b")),
              IsEmpty());
}

TEST(CheckPlanTest, InputIsWrittenFirstWhereverItStands) {
  const auto diagnostics =
      PlanDiagnostics(GraphBuilder()
                          .Input("x", In(0))
                          .Op("a", "copy", {"x"}, {In(1)})
                          .Input("w", In(1))
                          .Op("b", "add", {"a", "w"}, {In(2)})
                          .Head("b"));
  EXPECT_THAT(diagnostics,
              ElementsAre(HasSubstr("output 0 of node 1 (a) overwrites output "
                                    "0 of node 2 (w), which node 3 (b)")));
}

TEST(CheckPlanTest, TwoInputsInOneStorageAreAnError) {
  const auto diagnostics =
      PlanDiagnostics(GraphBuilder()
                          .Input("x", In(0))
                          .Input("y", In(0))
                          .Op("a", "add", {"x", "y"}, {In(1)})
                          .Head("a"));
  EXPECT_THAT(diagnostics,
              ElementsAre(HasSubstr("(y) overwrites output 0 of node 0 (x)")));
}

TEST(CheckPlanTest, InputsThatNothingReadsMayShareStorage) {
  EXPECT_THAT(
      PlanDiagnostics(GraphBuilder().Input("x", In(0)).Input("y", In(0))),
      IsEmpty());
}

TEST(CheckPlanTest, TensorThatNothingReadsStillOverwritesItsTwin) {
  const auto inputs = PlanDiagnostics(GraphBuilder()
                                          .Input("x", In(0))
                                          .Input("y", In(0))
                                          .Op("a", "copy", {"y"}, {In(1)})
                                          .Head("a"));
  EXPECT_THAT(inputs, ElementsAre(HasSubstr("(x) overwrites output 0 of node 1 "
                                            "(y), which node 2 (a) reads")));
  const auto outputs =
      PlanDiagnostics(GraphBuilder()
                          .Input("x", In(0))
                          .Op("s", "split", {"x"}, {In(1), In(1)})
                          .Head("s:1"));
  EXPECT_THAT(outputs, ElementsAre(HasSubstr("output 0 of node 1 (s) "
                                             "overwrites output 1")));
}

TEST(CheckPlanTest, TwoOutputsOfOneNodeInOneStorageAreAnError) {
  const auto diagnostics =
      PlanDiagnostics(GraphBuilder()
                          .Input("x", In(0))
                          .Op("s", "split", {"x"}, {In(1), In(1)})
                          .Op("a", "add", {"s:0", "s:1"}, {In(2)})
                          .Head("a"));
  EXPECT_THAT(diagnostics,
              ElementsAre(HasSubstr("output 1 of node 1 (s) overwrites "
                                    "output 0 of node 1 (s)")));
}

}  // namespace
}  // namespace nodewise
