#include "nodewise/autotest/network_draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nodewise/ops/ops.h"
#include "nodewise/runner/built_in_functions.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

std::vector<const OperatorDef*> AllRows() {
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (HasSpace(*row)) rows.push_back(row);
  }
  return rows;
}

TEST(NetworkDrawTest, EveryOperatorIsReached) {
  const std::vector<const OperatorDef*> rows = AllRows();
  std::set<std::string> missing;
  for (const OperatorDef* row : rows) missing.emplace(row->name);
  const auto source = NetworkSource(ScopeOf(rows));
  for (uint64_t number = 0; number < 20000 && !missing.empty(); ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    const auto made = DrawNumber(*source, 1, number, &choices, &refused);
    ASSERT_THAT(made, IsOk());
    for (const OperationId id : made->network->order()) {
      missing.erase(std::string(made->network->operation(id).kind()));
    }
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

TEST(NetworkDrawTest, LoweredNetworksAgree) {
  const std::vector<const OperatorDef*> rows = AllRows();
  const auto graph = LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
  AutotestOptions options;
  options.seed = 3;
  options.runs = 2000;
  options.sets = 4;
  const AutotestResult result =
      RunAutotest(*NetworkSource(ScopeOf(rows)), *graph, options);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_GT(result.CountOf(CaseOutcome::kAgrees), 1800U);
}

}  // namespace
}  // namespace nodewise
