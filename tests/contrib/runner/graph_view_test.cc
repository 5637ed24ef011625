#include "nodewise/runner/graph_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/runner/network_runner.h"
#include "nodewise/tensors/tensor_collector.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = tanh(relu(x + w)), seen as two nodes: the sum, and the rest.
struct Viewed {
  Viewed() {
    NetBuilder b;
    const ValueId x = b.In("x", {2});
    const ValueId w = b.Const("w", Floats({1, -3}));
    ValueId y = b.Op("Add", {x, w}, {}, {"s"}, "sum")[0];
    y = b.Op("Relu", {y}, {}, {"r"}, "relu")[0];
    b.Out({b.Op("Tanh", {y}, {}, {"y"}, "last")[0]});
    LowerOptions options = kPlain;
    options.is_observed = [](const Network& network, ValueId id) {
      return network.value(id).name == "s";
    };
    const auto network = std::make_shared<const Network>(b.net);
    runner = ViewAsGraph(
        MakeNetworkRunner("interpreter", "net", network),
        std::make_shared<const Lowered>(Lower(b.net, "net", options).value()));
  }

  std::unique_ptr<Runner> runner;
};

std::vector<std::string> NamesIn(const TensorCollector& collector) {
  std::vector<std::string> names;
  for (const TensorCollector::Kept& kept : collector.kept()) {
    names.push_back(kept.key.Name());
  }
  return names;
}

TEST(GraphViewTest, TensorsAreCalledAsTheNodesAre) {
  Viewed viewed;
  TensorCollector collector;
  RunOptions options;
  options.sink = &collector;
  options.with_node_inputs = true;
  const auto result = viewed.runner->Run({{"x", Floats({1, 2})}}, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(NamesIn(collector),
              ElementsAre("x", "w", "sum:input:0", "sum:input:1", "sum",
                          "last:input:0", "last"));
  EXPECT_THAT(ValuesOf(collector.Find({"sum"}).value()), ElementsAre(2, -1));
  EXPECT_EQ(result->outputs[0].name, "y");
}

TEST(GraphViewTest, NodesThatAreNotSelectedAreNotHandedOn) {
  Viewed viewed;
  TensorCollector collector;
  RunOptions options;
  options.sink = &collector;
  options.select = [](const std::string& node) { return node == "last"; };
  ASSERT_THAT(viewed.runner->Run({{"x", Floats({1, 2})}}, options), IsOk());
  EXPECT_THAT(NamesIn(collector), ElementsAre("last"));
}

TEST(GraphViewTest, PatchesNameNodes) {
  Viewed viewed;
  RunOptions options;
  options.patches = {{"sum:0", Floats({0, 0}), "test", "--patch"}};
  const auto result = viewed.runner->Run({{"x", Floats({1, 2})}}, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(ValuesOf(result->outputs[0].tensor), ElementsAre(0, 0));
  options.patches[0].entry = "sun";
  EXPECT_THAT(viewed.runner->Run({{"x", Floats({1, 2})}}, options),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("sum")));
}

TEST(GraphViewTest, EveryRepeatIsHandedOn) {
  Viewed viewed;
  TensorCollector collector;
  RunOptions options;
  options.sink = &collector;
  options.repeats = 2;
  const auto result = viewed.runner->Run({{"x", Floats({1, 2})}}, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(NamesIn(collector),
              ElementsAre("x", "w", "sum", "last", "x", "w", "sum", "last"));
  EXPECT_EQ(result->durations_ns.size(), 2);
}

}  // namespace
}  // namespace nodewise
