// Faults in a library that a C compiler made.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/planter/planter.h"
#include "nodewise/zoo/zoo_networks.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

TEST(CompiledLibraryTest, ValuesCanBeSpoiledAndAttributesCannot) {
  const auto network = FindZooNetwork("convolutional")->make(AllOperators(), 1);
  ASSERT_THAT(network, IsOk());
  const auto lowered = Lower(*network, "net");
  ASSERT_THAT(lowered, IsOk());
  const auto emitted = EmitC(lowered->graph, AllOperators());
  ASSERT_THAT(emitted, IsOk());
  const std::string stem = testing::TempDir() + "nodewise_planted";
  std::ofstream(stem + ".c") << emitted->source;
  const std::string command =
      "cc -shared -fPIC '" + stem + ".c' -o '" + stem + ".so' -lm";
  ASSERT_EQ(std::system(command.c_str()), 0);
  auto module = LoadModule(stem + ".so");
  ASSERT_THAT(module, IsOk());
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = lowered->params;
  const auto planter =
      Planter::Create(emitted->graph, LibraryOf(*module), options);
  ASSERT_THAT(planter, IsOk());
  for (const FaultKind kind :
       {FaultKind::kDroppedLane, FaultKind::kOneWeight, FaultKind::kMissingBias,
        FaultKind::kFloat16Sums, FaultKind::kApproximation}) {
    EXPECT_THAT((*planter)->Plant(kind, 1), IsOk()) << RowOf(kind).name;
  }
  EXPECT_THAT((*planter)->Plant(FaultKind::kWrongPadding, 1),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("its function is compiled")));
  std::filesystem::remove(stem + ".c");
  std::filesystem::remove(stem + ".so");
}

}  // namespace
}  // namespace nodewise
