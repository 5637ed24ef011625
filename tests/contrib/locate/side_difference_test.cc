#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nodewise/locate/mix_builds.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

// y = tanh(x * w)
Lowered WeightedNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  const ValueId w = b.Const("w", Floats({1, 2, 3}));
  const ValueId m = b.Op("Mul", {x, w}, {}, {"m"}, "mul")[0];
  b.Out({b.Op("Tanh", {m}, {}, {"y"}, "bend")[0]});
  return Lower(b.net, "net", kPlain).value();
}

// What differs if the candidate is this: "parameter w: found, expected".
std::vector<std::string> DifferencesOf(const Lowered& candidate) {
  const Lowered reference = WeightedNet();
  const Params expected{reference.params};
  const Params found{candidate.params};
  std::vector<std::string> texts;
  for (const SideDifference& difference :
       CompareSides({reference.graph, expected}, {candidate.graph, found})) {
    texts.push_back(std::string(NameOf(difference.what)) + " " +
                    difference.name + ": " + difference.found + ", expected " +
                    difference.expected);
  }
  return texts;
}

TEST(SideDifferenceTest, EqualSidesDoNotDiffer) {
  EXPECT_THAT(DifferencesOf(WeightedNet()), ElementsAre());
}

TEST(SideDifferenceTest, AParameterIsToldWithItsWorstElement) {
  Lowered net = WeightedNet();
  net.params[0].tensor = Floats({1, 2.5, 3});
  EXPECT_THAT(DifferencesOf(net),
              ElementsAre("parameter w: 2.5 at element 1; 1 of 3 elements "
                          "differ, expected 2"));
}

TEST(SideDifferenceTest, AMissingNodeAndOneTooManyAreBothTold) {
  Lowered net = WeightedNet();
  net.graph.nodes.back().name = "other";
  EXPECT_THAT(DifferencesOf(net),
              ElementsAre("node bend: nothing, expected one of that name",
                          "node other: one of that name, expected nothing"));
}

TEST(SideDifferenceTest, AnotherTypeIsTold) {
  Lowered net = WeightedNet();
  net.graph.entries.back().dtype = kInt64;
  EXPECT_THAT(DifferencesOf(net),
              ElementsAre("node bend: int64 (3,), expected float32 (3,)"));
}

TEST(SideDifferenceTest, ANodeThatReadsSomethingElseIsTold) {
  Lowered net = WeightedNet();
  net.graph.nodes.back().inputs[0].node = 0;
  EXPECT_THAT(DifferencesOf(net),
              ElementsAre("node bend: reads x:0, expected reads mul:0"));
}

TEST(SideDifferenceTest, ANodeThatSaysSomethingElseIsTold) {
  Lowered net = WeightedNet();
  for (auto& [name, text] : net.graph.nodes.back().attrs) {
    if (name == "nodewise.network") text += " ";
  }
  EXPECT_THAT(DifferencesOf(net),
              ElementsAre("node bend: another nodewise.network, expected the "
                          "reference's"));
}

}  // namespace
}  // namespace nodewise
