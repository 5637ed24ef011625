#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "contrib/lower/fusion.h"
#include "nodewise/graph/graph_json.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

IsObserved Only(std::set<std::string> names) {
  return [names = std::move(names)](const Network& network, ValueId id) {
    return names.contains(network.value(id).name);
  };
}

// Every region as the names of its operations.
std::vector<std::vector<std::string>> NamesOf(
    const Network& network, const std::vector<ObservedRegion>& regions) {
  std::vector<std::vector<std::string>> names;
  for (const ObservedRegion& region : regions) {
    names.emplace_back();
    for (const OperationId id : region.operations) {
      names.back().push_back(network.operation(id).name);
    }
  }
  return names;
}

// x -> a -> b -> d -> y, and a -> c -> d.
Network Diamond() {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  const ValueId a = b.Op("Relu", {x}, {}, {"a"}, "a")[0];
  const ValueId left = b.Op("Neg", {a}, {}, {"b"}, "b")[0];
  const ValueId right = b.Op("Abs", {a}, {}, {"c"}, "c")[0];
  const ValueId sum = b.Op("Add", {left, right}, {}, {"d"}, "d")[0];
  b.Out({b.Op("Tanh", {sum}, {}, {"y"}, "y")[0]});
  return b.net;
}

using Names = std::vector<std::string>;

TEST(ObservedRegionsTest, WhereAllIsSeenEveryOperationIsOnItsOwn) {
  const Network net = Diamond();
  EXPECT_THAT(
      NamesOf(net, FindObservedRegions(net, Only({"a", "b", "c", "d"}))),
      ElementsAre(Names{"a"}, Names{"b"}, Names{"c"}, Names{"d"}, Names{"y"}));
}

TEST(ObservedRegionsTest, AValueThatIsNotSeenJoinsItsMakerAndItsReaders) {
  const Network net = Diamond();
  EXPECT_THAT(NamesOf(net, FindObservedRegions(net, Only({"a", "c", "d"}))),
              ElementsAre(Names{"a"}, Names{"c"}, Names{"b", "d"}, Names{"y"}));
  EXPECT_THAT(NamesOf(net, FindObservedRegions(net, Only({"b", "c", "d"}))),
              ElementsAre(Names{"a", "b", "c"}, Names{"d"}, Names{"y"}));
}

TEST(ObservedRegionsTest, WhereNothingIsSeenTheNetworkIsOneRegion) {
  const Network net = Diamond();
  EXPECT_THAT(NamesOf(net, FindObservedRegions(net, Only({}))),
              ElementsAre(Names{"a", "b", "c", "d", "y"}));
}

// a and d belong together, c lies between them.
TEST(ObservedRegionsTest, WhatLiesBetweenPartsOfARegionBelongsToIt) {
  NetBuilder b;
  const ValueId x = b.In("x", {3});
  const ValueId a = b.Op("Relu", {x}, {}, {"a"}, "a")[0];
  const ValueId seen = b.Op("Neg", {a}, {}, {"s"}, "s")[0];
  const ValueId c = b.Op("Abs", {seen}, {}, {"c"}, "c")[0];
  b.Out({b.Op("Add", {a, c}, {}, {"y"}, "y")[0]});
  const auto regions = FindObservedRegions(b.net, Only({"s", "c"}));
  EXPECT_THAT(NamesOf(b.net, regions), ElementsAre(Names{"a", "s", "c", "y"}));
  EXPECT_EQ(regions[0].outputs.size(), 3);
}

TEST(ObservedRegionsTest, TheGraphComputesTheNetworkForAnySetOfObservedValues) {
  const Network net = Diamond();
  const NDArray x = Floats({-1, 0.5, 2});
  for (const std::set<std::string>& seen :
       {std::set<std::string>{}, {"a"}, {"b"}, {"b", "c"}, {"a", "d"}}) {
    LowerOptions options = kPlain;
    options.is_observed = Only(seen);
    ExpectAsInterpreted(net, {x}, options);
  }
}

TEST(ObservedRegionsTest, ARegionWithSeveralOutputsNamesThem) {
  LowerOptions options = kPlain;
  options.is_observed = Only({"b", "c", "d"});
  const auto lowered = Lower(Diamond(), "net", options);
  ASSERT_THAT(lowered, IsOk());
  EXPECT_EQ(ValueNameOf(lowered->graph, {1, 0, 0}), "b");
  EXPECT_EQ(ValueNameOf(lowered->graph, {1, 1, 0}), "c");
}

}  // namespace
}  // namespace nodewise
