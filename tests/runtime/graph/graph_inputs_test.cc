#include "nodewise/graph/graph_inputs.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two inputs called p0, of 4 and of 2 elements, and one that nothing reads.
Graph TwoOfOneName() {
  return GraphBuilder()
      .Input("p0")
      .Input("p0", {.shape = {2}})
      .Input("unread")
      .Op("sum", "add", {"#0", "#0"})
      .Op("twice", "add", {"#1", "#1"})
      .Head("sum")
      .Head("twice")
      .Build();
}

Params ParamsOf(const std::string& name, NDArray tensor) {
  Params params;
  params.tensors.push_back({name, std::move(tensor)});
  return params;
}

TEST(GraphInputsTest, AnInputSaysWhetherItIsRead) {
  const Graph graph = TwoOfOneName();
  const std::vector<GraphInput> inputs = InputsOf(graph);
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_TRUE(inputs[0].is_read);
  EXPECT_FALSE(inputs[2].is_read);
  EXPECT_FALSE(inputs[0].is_param);
}

TEST(GraphInputsTest, ANameOfSeveralMeansTheOneThatIsNotAParameter) {
  const Graph graph = TwoOfOneName();
  std::vector<GraphInput> inputs = InputsOf(graph);
  EXPECT_THAT(FindInput(inputs, "p0"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected one of p0#0, p0#1")));
  EXPECT_EQ(FindInput(inputs, "p0#1").value(), 1u);
  MarkParams(graph, ParamsOf("p0", Floats({1, 2, 3, 4})), &inputs);
  EXPECT_EQ(FindInput(inputs, "p0").value(), 1u);
}

TEST(GraphInputsTest, AKeyMeansItsInputForAnyNamesOfTheOthers) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Input("x")
                          .Input("x#1")
                          .Op("sum", "add", {"#0", "#1"})
                          .Head("sum")
                          .Build();
  const std::vector<GraphInput> inputs = InputsOf(graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(FindInput(inputs, KeyOfInput(inputs, i)).value(), i);
  }
  EXPECT_EQ(FindInput(inputs, "x#1").value(), 2u);
}

TEST(GraphInputsTest, AnUnknownNameIsRefusedWithTheNearest) {
  const Graph graph = TwoOfOneName();
  EXPECT_THAT(
      FindInput(InputsOf(graph), "unred"),
      FailsWith(absl::StatusCode::kNotFound, HasSubstr("did you mean unread")));
}

TEST(GraphInputsTest, AParameterGoesToTheInputThatItFitsOrElseToTheLast) {
  const Graph graph = TwoOfOneName();
  std::vector<GraphInput> inputs = InputsOf(graph);
  MarkParams(graph, ParamsOf("p0", Floats({1, 2, 3})), &inputs);
  EXPECT_TRUE(inputs[1].is_param);
  inputs = InputsOf(graph);
  EXPECT_THAT(MarkParams(graph, ParamsOf("q", Floats({1})), &inputs),
              ElementsAre("q"));
}

TEST(GraphInputsTest, ALibraryWithoutLinkedDataMarksNothing) {
  const Graph graph = TwoOfOneName();
  std::vector<GraphInput> inputs = InputsOf(graph);
  const Ref<Library> library = TestKernels();
  ASSERT_THAT(MarkLinked(graph, *library, &inputs), IsOk());
  EXPECT_FALSE(inputs[0].is_linked);
  EXPECT_THAT(CheckSettable(inputs[0]), IsOk());
}

}  // namespace
}  // namespace nodewise
