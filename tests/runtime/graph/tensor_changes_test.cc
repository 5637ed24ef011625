// What kernels are told of changes of their inputs.

#include <gtest/gtest.h>

#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using Changes = std::vector<std::shared_ptr<const TensorChanges>>;

// f(x, w) -> g(f): an executor, and what the library was told of f's tensors
// and of g's.
struct ToldChanges {
  Changes of_f;
  Changes of_g;
  std::unique_ptr<GraphExecutor> executor;

  explicit ToldChanges(GraphExecutor::Options options = {}) {
    const auto keep = [](Changes* changes) {
      return [changes](
                 const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
        changes->assign(request.changes.begin(), request.changes.end());
        return PackedFunc::FromBody(
            [](const PackedArgs&) -> absl::StatusOr<Value> { return Value(); });
      };
    };
    const GraphBuilder graph = GraphBuilder()
                                   .Input("x")
                                   .Input("w")
                                   .Op("f", "f", {"x", "w"})
                                   .Op("g", "g", {"f"})
                                   .Head("g");
    executor = GraphExecutor::Create(
                   graph.Build(),
                   BuiltInLibrary({{"f", keep(&of_f)}, {"g", keep(&of_g)}}),
                   std::move(options))
                   .value();
  }
};

const NDArray& Four() {
  static const NDArray four = Floats({1, 2, 3, 4});
  return four;
}

TEST(TensorChangesTest, SettingAnInputIsCounted) {
  const ToldChanges told;
  ASSERT_EQ(told.of_f.size(), 3u);
  const TensorChanges& w = *told.of_f[1];
  const uint64_t before = w.count;
  const uint64_t before_of_x = told.of_f[0]->count;
  ASSERT_THAT(told.executor->SetInput("w", *Four()), IsOk());
  EXPECT_GT(w.count, before);
  EXPECT_EQ(told.of_f[0]->count, before_of_x);
  EXPECT_FALSE(w.may_be_unseen());
}

TEST(TensorChangesTest, OfWhatNodesWriteNothingIsKnown) {
  const ToldChanges told;
  EXPECT_EQ(told.of_f[2], nullptr);
  ASSERT_EQ(told.of_g.size(), 2u);
  EXPECT_EQ(told.of_g[0], nullptr);
}

TEST(TensorChangesTest, MemoryThatIsHandedOutMayChangeUnseenForEver) {
  const ToldChanges told;
  ASSERT_THAT(told.executor->GetInput(1), IsOk());
  EXPECT_TRUE(told.of_f[1]->may_be_unseen());
  EXPECT_FALSE(told.of_f[0]->may_be_unseen());
  ASSERT_THAT(told.executor->SetInput("w", *Four()), IsOk());
  EXPECT_TRUE(told.of_f[1]->may_be_unseen());
}

TEST(TensorChangesTest, TheCallersMemoryMayChangeUnseenWhileItIsBound) {
  const ToldChanges told;
  const TensorChanges& w = *told.of_f[1];
  ASSERT_THAT(told.executor->SetInputZeroCopy(1, Four()), IsOk());
  EXPECT_TRUE(w.may_be_unseen());
  const uint64_t before = w.count;
  ASSERT_THAT(told.executor->SetInput("w", *Four()), IsOk());
  EXPECT_FALSE(w.may_be_unseen());
  EXPECT_GT(w.count, before);
}

TEST(TensorChangesTest, MemoryFromTheCallerMayChangeUnseen) {
  GraphExecutor::Options options;
  options.allocate = [](uint32_t, size_t bytes, DLDevice device) {
    return NDArray::Empty({static_cast<int64_t>(bytes)},
                          DLDataType{kDLUInt, 8, 1}, device);
  };
  const ToldChanges told(std::move(options));
  EXPECT_TRUE(told.of_f[1]->may_be_unseen());
}

TEST(TensorChangesTest, AnInputThatSharesItsMemoryIsNotAnsweredFor) {
  StoragePlan plan = ToldChanges().executor->plan();
  plan.slot_of[2] = plan.slot_of[1];  // f writes over w.
  GraphExecutor::Options options;
  options.plan = plan;
  const ToldChanges told(std::move(options));
  EXPECT_NE(told.of_f[0], nullptr);
  EXPECT_EQ(told.of_f[1], nullptr);
}

}  // namespace
}  // namespace nodewise
