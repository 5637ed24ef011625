// Faults in a library that a C compiler made.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/planter/planter.h"
#include "nodewise/zoo/zoo_networks.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/compiled_network.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(CompiledLibraryTest, ValuesCanBeSpoiledAndAttributesCannot) {
  const auto network = FindZooNetwork("convolutional")->make(AllOperators(), 1);
  ASSERT_THAT(network, IsOk());
  const auto lowered = Lower(*network, "net");
  ASSERT_THAT(lowered, IsOk());
  const auto compiled =
      CompileNetwork(lowered->graph, AllOperators(), testing::TempDir());
  ASSERT_THAT(compiled, IsOk());
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = lowered->params;
  const auto planter =
      Planter::Create(compiled->graph, compiled->library, options);
  ASSERT_THAT(planter, IsOk());
  for (const FaultKind kind :
       {FaultKind::kDroppedLane, FaultKind::kOneWeight, FaultKind::kMissingBias,
        FaultKind::kFloat16Sums, FaultKind::kApproximation}) {
    EXPECT_THAT((*planter)->Plant(kind, 1), IsOk()) << RowOf(kind).name;
  }
  EXPECT_THAT((*planter)->Plant(FaultKind::kWrongPadding, 1),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("its function is compiled")));
}

}  // namespace
}  // namespace nodewise
