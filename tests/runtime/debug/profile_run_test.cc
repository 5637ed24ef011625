#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <stdexcept>

#include "nodewise/runtime/debug_executor.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

Executor Make(const GraphBuilder& graph, Ref<Library> library = TestKernels()) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  Executor executor =
      DebugExecutor::Create(graph.Build(), std::move(library), options).value();
  for (size_t i = 0; i < executor->NumInputs(); ++i) {
    EXPECT_THAT(executor->SetInput(i, *Floats({0, 1, 2, 3})), IsOk());
  }
  return executor;
}

TEST(ProfileRunTest, GraphWithoutNodesIsTimed) {
  const auto profile = Make(GraphBuilder())->RunProfile({});
  ASSERT_THAT(profile, IsOk());
  EXPECT_EQ(profile->runs.size(), 10u);
}

}  // namespace
}  // namespace nodewise
