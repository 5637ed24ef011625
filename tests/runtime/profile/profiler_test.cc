#include "nodewise/profile/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <stdexcept>

#include "nodewise/debug/debug_executor.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<DebugExecutor>;

TEST(ProfilerTest, GraphWithoutNodesIsTimed) {
  const auto profile = Profiler(MakeSet(GraphBuilder()).get()).Run({});
  ASSERT_THAT(profile, IsOk());
  EXPECT_EQ(profile->runs.size(), 10u);
}

TEST(ProfilerTest, PatchesAndInvokersAreRefused) {
  const Executor executor =
      MakeSet(GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a"));
  const auto expect_refusal = [&](const std::string& text) {
    const auto refusal =
        FailsWith(StatusCode::kFailedPrecondition, HasSubstr(text));
    EXPECT_THAT(Profiler(executor.get()).Run({}), refusal);
    EXPECT_THAT(Profiler(executor.get()).TimeNodes({}), refusal);
    EXPECT_THAT(Profiler(executor.get()).TimeNode(NodeId{1}, {}), refusal);
  };
  ASSERT_THAT(executor->Patch(EntryId{1}, *Floats({5, 5, 5, 5})), IsOk());
  expect_refusal("profile: 1 entry is patched, expected none (ClearPatches");
  executor->ClearPatches();
  executor->SetInvoker(
      [](NodeId, absl::FunctionRef<absl::Status()> call) { return call(); });
  expect_refusal("profile: an invoker is set, expected none (SetInvoker");
  executor->SetInvoker(nullptr);
  EXPECT_THAT(Profiler(executor.get()).Run({}), IsOk());
}

TEST(ProfilerTest, RepeatsThatFillTheMemoryAreRefused) {
  const Executor executor =
      MakeSet(GraphBuilder().Input("x").Op("a", "inc", {"x"}).Head("a"));
  RepeatOptions options;
  options.repeat = 2'000'000'000;
  const auto refusal =
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("repeat is 2000000000, expected 1 to 1000000"));
  EXPECT_THAT(Profiler(executor.get()).TimeNodes(options), refusal);
  EXPECT_THAT(Profiler(executor.get()).TimeNode(NodeId{1}, options), refusal);
}

TEST(ProfilerTest, RunsMayBeAsManyAsTheNumbersSay) {
  int calls = 0;
  const Executor executor =
      MakeSet(GraphBuilder().Input("x").Op("a", "tired", {"x"}).Head("a"),
              WithKernels({{"tired", [&](const std::vector<float*>&) {
                              if (++calls > 4)
                                throw std::runtime_error("tired");
                            }}}));
  Profiler::Options options;
  options.runs = options.warm_up = INT_MAX;
  size_t most = 0;
  options.progress = [&](size_t, size_t total) { most = total; };
  EXPECT_THAT(Profiler(executor.get()).Run(options),
              FailsWith(StatusCode::kInternal, HasSubstr("tired")));
  EXPECT_EQ(most, 2 * static_cast<size_t>(INT_MAX));
}

}  // namespace
}  // namespace nodewise
