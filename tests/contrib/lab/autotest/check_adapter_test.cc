#include "nodewise/autotest/check_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/runner/network_runner.h"
#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using Outcome = AdapterTrial::Outcome;

// y = relu(x * w + b), with a pool before it.
CheckedNetwork SmallNetwork() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2, 4, 4});
  const ValueId pooled = b.Op("MaxPool", {x},
                              {{"kernel_shape", std::vector<int64_t>{2, 2}},
                               {"strides", std::vector<int64_t>{2, 2}}},
                              {"p"}, "pool")[0];
  const ValueId w = b.Const("w", RandomFloats("w", {1, 2, 2, 2}));
  const ValueId scaled = b.Op("Mul", {pooled, w}, {}, {"m"}, "scale")[0];
  const ValueId c = b.Const("c", RandomFloats("c", {1, 2, 2, 2}));
  const ValueId sum = b.Op("Sub", {scaled, c}, {}, {"s"}, "shift")[0];
  b.Out({b.Op("Tanh", {sum}, {}, {"y"}, "bend")[0]});
  return {"small",
          std::make_shared<const Network>(std::move(b.net)),
          {{"x", RandomFloats("x", {1, 2, 4, 4})}}};
}

using NetworkChoice = std::function<std::shared_ptr<const Network>(
    std::shared_ptr<const Network> asked)>;

// What runs a network of its choice.
std::shared_ptr<const NetworkProgram> ProgramThatRuns(NetworkChoice choice) {
  NetworkProgram program;
  program.name = "fake";
  program.make =
      [choice = std::move(choice)](
          ProgramRequest request) -> absl::StatusOr<std::unique_ptr<Runner>> {
    return MakeNetworkRunner("fake", "net", choice(request.network));
  };
  return std::make_shared<const NetworkProgram>(std::move(program));
}

absl::StatusOr<AdapterCheck> Checked(NetworkChoice choice,
                                     bool spoils = false) {
  AdapterCheckOptions options;
  options.faults = 4;
  options.spoils = spoils;
  return CheckAdapter(ProgramThatRuns(std::move(choice)), {SmallNetwork()},
                      AllOperators(), options);
}

std::vector<Outcome> OutcomesOf(const AdapterCheck& check) {
  std::vector<Outcome> outcomes;
  for (const AdapterTrial& trial : check.trials) {
    outcomes.push_back(trial.outcome);
  }
  return outcomes;
}

TEST(CheckAdapterTest, AChangeShowsAndKeepsAllNames) {
  const CheckedNetwork checked = SmallNetwork();
  std::set<std::string> operations;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto changed = ChangeOneOperation(checked, AllOperators(), seed);
    ASSERT_THAT(changed, IsOk());
    operations.insert(changed->operation);
    for (const OperationId id : checked.network->order()) {
      const Operation& operation = checked.network->operation(id);
      EXPECT_THAT(changed->network->FindOperation(operation.name), IsOk());
      EXPECT_TRUE(changed->network->HasValue(
          checked.network->value(operation.outputs[0]).name));
    }
    const std::vector<NDArray> inputs = {checked.inputs[0].tensor};
    const auto expected = Interpret(*checked.network, inputs);
    const auto found = Interpret(*changed->network, inputs);
    EXPECT_GT(OutputError({&*expected, 1}, {&*found, 1}), 0.05);
  }
  EXPECT_GT(operations.size(), 2U);
}

TEST(CheckAdapterTest, ARuntimeThatRunsWhatItIsGivenIsTrusted) {
  const auto check = Checked([](auto asked) { return asked; });
  ASSERT_THAT(check, IsOk());
  EXPECT_EQ(check->trials.size(), 5U);
  for (const AdapterTrial& trial : check->trials) {
    EXPECT_EQ(trial.outcome, Outcome::kRight)
        << trial.operation << ": " << trial.change;
  }
  EXPECT_TRUE(check->IsTrusted());
}

TEST(CheckAdapterTest, ARuntimeThatIsGivenSomethingElseMissesChanges) {
  const CheckedNetwork small = SmallNetwork();
  const auto check = Checked([&](const auto&) { return small.network; });
  ASSERT_THAT(check, IsOk());
  EXPECT_THAT(OutcomesOf(*check),
              ElementsAre(Outcome::kRight, Outcome::kMissed, Outcome::kMissed,
                          Outcome::kMissed, Outcome::kMissed));
  EXPECT_FALSE(check->IsTrusted());
}

TEST(CheckAdapterTest, AChangeThatTheRuntimeDropsDoesNotCount) {
  const CheckedNetwork small = SmallNetwork();
  const auto pool = [](const Network& network) {
    return network.operation(*network.FindOperation("pool"));
  };
  const auto check = Checked([&](auto asked) {
    const auto found = asked->FindOperation("pool");
    const bool is_changed =
        found.ok() && (pool(*asked).attrs != pool(*small.network).attrs ||
                       pool(*asked).def().name != "MaxPool");
    return is_changed ? small.network : asked;
  });
  ASSERT_THAT(check, IsOk());
  EXPECT_TRUE(check->IsTrusted());
  EXPECT_EQ(check->trials.size(), 5U);
  ASSERT_FALSE(check->dropped.empty());
  for (const AdapterTrial& trial : check->dropped) {
    EXPECT_EQ(trial.operation, "pool");
  }
}

bool IsChanged(const Network& asked, const std::string& name) {
  const CheckedNetwork small = SmallNetwork();
  const auto what = [&](const Network& network) {
    const Operation& operation =
        network.operation(*network.FindOperation(name));
    std::string text(operation.def().name);
    for (const ValueId input : operation.inputs) {
      text += " " + network.value(input).name;
    }
    return std::pair(text, operation.attrs);
  };
  return asked.HasOperation(name) && what(asked) != what(*small.network);
}

// Computes `also` with other numbers where one of `changed` has changed.
NetworkChoice CarryingChanges(const std::vector<std::string>& changed,
                              const std::string& also) {
  return [=](std::shared_ptr<const Network> asked) {
    const bool carries = std::any_of(
        changed.begin(), changed.end(),
        [&](const std::string& name) { return IsChanged(*asked, name); });
    if (!carries) return asked;
    Network other = *asked;
    const ValueId numbers =
        *other.AddConstant("other", RandomFloats("other", {1, 2, 2, 2}));
    EXPECT_THAT(other.ReplaceInput(*other.FindOperation(also), 1, numbers),
                IsOk());
    return std::shared_ptr<const Network>(
        std::make_shared<Network>(std::move(other)));
  };
}

TEST(CheckAdapterTest, WhatTheRuntimeCarriesAChangeIntoIsWrongToo) {
  const auto check = Checked(CarryingChanges({"shift", "bend"}, "scale"));
  ASSERT_THAT(check, IsOk());
  EXPECT_TRUE(check->IsTrusted());
  int carried = 0;
  for (const AdapterTrial& trial : check->trials) {
    if (trial.carried_into.empty()) continue;
    EXPECT_THAT(trial.carried_into, ElementsAre("scale"));
    ++carried;
  }
  EXPECT_GT(carried, 0);
}

TEST(CheckAdapterTest, NothingBehindTheChangeCountsAsCarriedInto) {
  const auto check = Checked(CarryingChanges({"pool", "scale"}, "shift"));
  ASSERT_THAT(check, IsOk());
  EXPECT_FALSE(check->IsTrusted());
  for (const AdapterTrial& trial : check->trials) {
    EXPECT_TRUE(trial.carried_into.empty()) << trial.operation;
  }
}

TEST(CheckAdapterTest, WhatIsSpoiledInARuntimeWithAFileOfItsOwnIsNamed) {
  const CheckedNetwork small = SmallNetwork();
  const auto check =
      Checked([&](const auto&) { return small.network; }, /*spoils=*/true);
  ASSERT_THAT(check, IsOk());
  EXPECT_TRUE(check->IsTrusted());
  ASSERT_EQ(check->trials.size(), 5U);
  for (const AdapterTrial& trial : absl::MakeSpan(check->trials).subspan(1)) {
    EXPECT_THAT(trial.accused, ElementsAre(trial.operation));
    EXPECT_THAT(trial.change, testing::StartsWith("its result "));
  }
}

TEST(CheckAdapterTest, WhatIsWrongBesideASpoiledResultIsNotTrusted) {
  const auto wrong = ChangeOneOperation(SmallNetwork(), AllOperators(), 3);
  ASSERT_THAT(wrong, IsOk());
  const auto check =
      Checked([&](const auto&) { return wrong->network; }, /*spoils=*/true);
  ASSERT_THAT(check, IsOk());
  EXPECT_EQ(check->trials[0].outcome, Outcome::kWrong);
  EXPECT_FALSE(check->IsTrusted());
}

TEST(CheckAdapterTest, ARuntimeThatIsAlwaysWrongIsNotSound) {
  const auto wrong = ChangeOneOperation(SmallNetwork(), AllOperators(), 3);
  ASSERT_THAT(wrong, IsOk());
  const auto check = Checked([&](const auto&) { return wrong->network; });
  ASSERT_THAT(check, IsOk());
  EXPECT_EQ(check->trials[0].outcome, Outcome::kWrong);
  EXPECT_THAT(check->trials[0].accused, ElementsAre(wrong->operation));
}

TEST(CheckAdapterTest, WhatRunsNothingIsAnErrorWithItsReason) {
  NetworkProgram program;
  program.make =
      [](const ProgramRequest&) -> absl::StatusOr<std::unique_ptr<Runner>> {
    return absl::UnavailableError("it is not installed");
  };
  const auto check =
      CheckAdapter(std::make_shared<const NetworkProgram>(std::move(program)),
                   {SmallNetwork()}, AllOperators(), {.faults = 1});
  EXPECT_THAT(check, FailsWith(absl::StatusCode::kFailedPrecondition,
                               testing::HasSubstr("not installed")));
}

}  // namespace
}  // namespace nodewise
