#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

TEST(NamedOutputsTest, EntryThatIsAnOutputTwiceHasTwoNames) {
  const auto executor = GraphExecutor::Create(GraphBuilder()
                                                  .Input("x")
                                                  .Op("a", "inc", {"x"})
                                                  .Head("a")
                                                  .Head("a")
                                                  .Build(),
                                              TestKernels())
                            .value();
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  const auto outputs = FetchOutputs(*executor);
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(NamesOf(*outputs), ElementsAre("a:0", "a:0_2"));
  for (const NamedTensor& output : *outputs) {
    EXPECT_THAT(ValuesOf(output.tensor), ElementsAre(2, 3, 4, 5));
  }
}

TEST(NamedOutputsTest, LaterRunsDoNotChangeWhatWasFetched) {
  const auto executor =
      GraphExecutor::Create(
          GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a").Build(),
          TestKernels())
          .value();
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  const auto outputs = FetchOutputs(*executor);
  ASSERT_THAT(executor->SetInput("x", *Floats({5, 6, 7, 8})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(outputs, IsOk());
  EXPECT_THAT(ValuesOf(outputs->at(0).tensor), ElementsAre(2, 3, 4, 5));
}

TEST(NamedOutputsTest, NumberThatIsANameAlreadyIsPassedOver) {
  std::vector<NamedTensor> tensors;
  for (const char* name : {"y", "y_2", "y", "y", "z"}) {
    tensors.push_back({name, Floats({1})});
  }
  MakeNamesUnique(&tensors);
  EXPECT_THAT(NamesOf(tensors), ElementsAre("y", "y_2", "y_3", "y_4", "z"));
}

}  // namespace
}  // namespace nodewise
