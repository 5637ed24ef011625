#include "nodewise/tensors/tensor_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contrib/tensors/tensor_source_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> a -> b -> c, where c lies in the memory of a.
std::unique_ptr<DebugExecutor> Chain(const char* last = "inc") {
  const Graph graph = GraphBuilder()
                          .Input("x", {.storage_id = 0})
                          .Op("a", "inc", {"x"}, {{.storage_id = 1}})
                          .Op("b", "inc", {"a"}, {{.storage_id = 2}})
                          .Op("c", last, {"b"}, {{.storage_id = 1}})
                          .Head("c")
                          .Build();
  DebugExecutor::DebugOptions options;
  options.records = false;
  auto executor = DebugExecutor::Create(graph, TestKernels(), options).value();
  EXPECT_THAT(executor->SetInput(0, *Floats({0, 1, 2, 3})), IsOk());
  return executor;
}

// TV-48.
TEST(TensorObserverTest, HandsOutTensorsBeforeTheyAreOverwritten) {
  const auto executor = Chain();
  const auto items = VisitAll(*SourceOfRuns(executor.get(), {}));
  EXPECT_THAT(NamesOf(items), ElementsAre("x", "a", "b", "c"));
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(ValuesOf(items[i].tensor)[0], i);
  }
  EXPECT_TRUE(items[0].is_network_input);
  EXPECT_FALSE(items[1].is_network_input);
  EXPECT_GT(items[1].time.start_ns, 0);
}

TEST(TensorObserverTest, HandsOutWhatNodesReadIfAsked) {
  const auto executor = Chain();
  const auto items =
      VisitAll(*SourceOfRuns(executor.get(), {.with_node_inputs = true}));
  EXPECT_THAT(NamesOf(items), ElementsAre("x", "a:input:0", "a", "b:input:0",
                                          "b", "c:input:0", "c"));
  ASSERT_TRUE(items[5].origin.has_value());
  EXPECT_EQ(*items[5].origin, items[4].key);
  EXPECT_EQ(ValuesOf(items[5].tensor), ValuesOf(items[4].tensor));
}

TEST(TensorObserverTest, LeavesOutNodesThatAreNotChosen) {
  const auto executor = Chain();
  const TensorObserverOptions options{.with_node_inputs = true,
                                      .nodes = {false, false, true, false}};
  EXPECT_THAT(NamesOf(VisitAll(*SourceOfRuns(executor.get(), options))),
              ElementsAre("b:input:0", "b"));
}

TEST(TensorObserverTest, ErrorOfTheRunIsTheVisits) {
  const auto executor = Chain("fail");
  TensorCollector collector;
  EXPECT_THAT(
      SourceOfRuns(executor.get(), {})->Visit(collector),
      FailsWith(StatusCode::kInternal, HasSubstr("this kernel always fails")));
  EXPECT_EQ(collector.kept().size(), 3u);
}

// Refuses its tensor number `last`.
class Refuser : public TensorSink {
 public:
  explicit Refuser(int last) : left_(last) {}
  absl::Status Consume(const TensorItem&) override {
    return --left_ < 0 ? absl::OutOfRangeError("no more") : absl::OkStatus();
  }

 private:
  int left_;
};

TEST(TensorObserverTest, ErrorOfTheSinkEndsTheRunAndIsReturnedAsItIs) {
  const auto executor = Chain();
  Refuser sink(2);
  EXPECT_EQ(SourceOfRuns(executor.get(), {})->Visit(sink),
            absl::OutOfRangeError("no more"));
  EXPECT_EQ(Index(executor->Position()), 2u);
  // The executor is as good as before.
  EXPECT_EQ(VisitAll(*SourceOfRuns(executor.get(), {})).size(), 4u);
}

}  // namespace
}  // namespace nodewise
