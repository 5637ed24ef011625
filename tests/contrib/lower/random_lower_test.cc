// Random networks, lowered in every way: the graph's outputs are those of the
// interpreter, bit for bit, and nothing is wrong with its storage plan.

#include <gtest/gtest.h>

#include <iostream>

#include "nodewise/graph/graph_index.h"
#include "tests/contrib/lower/random_network.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

void CheckPlanOf(const Network& network, const LowerOptions& options,
                 size_t* slots) {
  const auto lowered = Lower(network, "net", options);
  ASSERT_THAT(lowered, IsOk());
  const auto plan = PlanStorage(lowered->graph, kDLCPU);
  ASSERT_THAT(plan, IsOk());
  DiagnosticList found;
  CheckPlan(lowered->graph, *plan, &found);
  EXPECT_TRUE(found.items().empty()) << found.ToStatus();
  *slots += plan->slots.size();
}

// Wherever tensors can be so, whether it is faster or not.
LowerOptions WithChannelsLast(LowerOptions options) {
  options.preference_of = [](const Network&, OperationId) {
    return LayoutPreference::kChannelsLast;
  };
  options.operators = AllOperators();
  return options;
}

TEST(RandomLowerTest, GraphsComputeWhatTheInterpreterDoes) {
  const int networks = NumCases(150, 5'000);
  const uint64_t seed = FirstSeed();
  size_t slots = 0;
  size_t slots_without_reuse = 0;
  for (int i = 0; i < networks && !HasFailure(); ++i) {
    const RandomNetwork random(seed + static_cast<uint64_t>(i));
    for (const bool fuse : {false, true}) {
      for (const bool reuse : {false, true}) {
        const LowerOptions options{fuse, reuse};
        CheckPlanOf(random.net(), options,
                    reuse ? &slots : &slots_without_reuse);
        ExpectAsInterpreted(random.net(), random.inputs(), options);
        ExpectAsInterpreted(random.net(), random.inputs(),
                            WithChannelsLast(options));
      }
    }
    if (!HasFailure()) continue;
    ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                  << " nodewise_ops_tests --gtest_filter=RandomLowerTest.*";
  }
  std::cout << networks << " networks from NODEWISE_SEED=" << seed << ": "
            << slots << " slots of memory, " << slots_without_reuse
            << " without reuse\n";
  EXPECT_LT(slots, slots_without_reuse);
}

}  // namespace
}  // namespace nodewise
