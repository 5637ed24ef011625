#include "nodewise/zoo/zoo_networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/planter/planter.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

std::vector<NDArray> DrawInputs(const Network& network) {
  std::vector<NDArray> inputs;
  for (const ValueId id : network.inputs()) {
    const NetworkValue& value = network.value(id);
    RandomSource random(1, value.name);
    inputs.push_back(
        RandomTensor(random, *value.type.sizes(), value.type.dtype).value());
  }
  return inputs;
}

TEST(ZooNetworksTest, NamesFindThem) {
  std::set<std::string_view> names;
  for (const ZooNetwork& row : ZooNetworks()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(FindZooNetwork(row.name).value().what, row.what);
  }
  EXPECT_GE(names.size(), 6U);
  EXPECT_THAT(FindZooNetwork("whale"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected one of demo, ")));
}

TEST(ZooNetworksTest, OneSeedGivesOneNetworkThatRunsAsItsGraphDoes) {
  for (const ZooNetwork& row : ZooNetworks()) {
    SCOPED_TRACE(row.name);
    const auto network = row.make(AllOperators(), 1);
    ASSERT_THAT(network, IsOk());
    const auto text = [&](uint64_t seed) {
      return NetworkToText(row.make(AllOperators(), seed)->data());
    };
    EXPECT_EQ(text(1), text(1));
    EXPECT_NE(text(1), text(2));
    ExpectAsInterpreted(*network, DrawInputs(*network));
  }
}

TEST(ZooNetworksTest, ResultsAreFiniteAndNotAllTheSame) {
  for (const ZooNetwork& row : ZooNetworks()) {
    SCOPED_TRACE(row.name);
    const auto network = row.make(AllOperators(), 3);
    ASSERT_THAT(network, IsOk());
    const auto made = Interpret(*network, DrawInputs(*network));
    ASSERT_THAT(made, IsOk());
    std::set<float> values;
    for (const float value : ValuesOf((*made)[0])) {
      EXPECT_TRUE(std::isfinite(value));
      values.insert(value);
    }
    EXPECT_GT(values.size(), 2U);
  }
}

TEST(ZooNetworksTest, TheQuantisedOneComputesWithIntegers) {
  const auto row = FindZooNetwork("quantised");
  ASSERT_THAT(row, IsOk());
  const auto network = row->make(AllOperators(), 1);
  ASSERT_THAT(network, IsOk());
  std::set<std::string> kinds;
  for (const OperationId id : network->order()) {
    kinds.emplace(network->operation(id).kind());
  }
  EXPECT_TRUE(kinds.contains("QLinearConv"));
}

TEST(ZooNetworksTest, ThereIsCForThoseThatSaySo) {
  for (const ZooNetwork& row : ZooNetworks()) {
    SCOPED_TRACE(row.name);
    const auto network = row.make(AllOperators(), 1);
    ASSERT_THAT(network, IsOk());
    const auto lowered = Lower(*network, "net");
    ASSERT_THAT(lowered, IsOk());
    EXPECT_EQ(EmitC(lowered->graph, AllOperators()).ok(), row.has_c);
  }
}

TEST(ZooNetworksTest, EveryKindOfFaultCanBePlantedInOneOfThem) {
  std::set<FaultKind> planted;
  for (const ZooNetwork& row : ZooNetworks()) {
    SCOPED_TRACE(row.name);
    const auto network = row.make(AllOperators(), 1);
    ASSERT_THAT(network, IsOk());
    const auto lowered = Lower(*network, "net");
    ASSERT_THAT(lowered, IsOk());
    PlanterOptions options;
    options.operators = AllOperators();
    options.params = lowered->params;
    const auto planter = Planter::Create(
        lowered->graph, BuiltInFunctions(AllOperators()), options);
    ASSERT_THAT(planter, IsOk());
    size_t here = 0;
    for (const FaultKindRow& kind : FaultKinds()) {
      if (!(*planter)->Plant(kind.kind, 1).ok()) continue;
      planted.insert(kind.kind);
      ++here;
    }
    EXPECT_GE(here, 16U);
  }
  EXPECT_EQ(planted.size(), FaultKinds().size());
}

}  // namespace
}  // namespace nodewise
