// Gradients of all operators against central differences, on drawn cases in
// double. It goes through the rows of all operators, so that it also tests
// those that are added later.

#include "tests/contrib/lab/gradient/central_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/lab/gradient/double_case.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

std::string NameOf(const OperatorDef& def) {
  return fmt::format("{} {}", def.name, def.since);
}

// What came of the draws of a row.
struct Tally {
  int judged = 0;
  int refused = 0;  // Refused for this use of the operator.
  std::string why_refused;
  std::vector<std::string> wrong;
};

void JudgeDraw(const OperatorDef& def, uint64_t number, Tally* tally) {
  const auto one = DrawDoubleCase(def, number);
  if (!one.ok()) return;
  const auto gradient = GradientOf(one->network, one->wanted);
  if (!gradient.ok()) {
    ++tally->refused;
    tally->why_refused = std::string(gradient.status().message());
    return;
  }
  RandomSource random(number, "numbers");
  Point point(one->network, *gradient, &random);
  for (const Interval& interval : kIntervals) {
    const auto differs =
        point.Differs(DrawDoubleInputs(*one, number, interval, &random));
    if (!differs.has_value()) continue;
    ++tally->judged;
    if (!differs->empty()) {
      tally->wrong.push_back(fmt::format("draw {}: {}: {}", number,
                                         ToString(one->made), *differs));
    }
    return;
  }
}

const std::map<std::string, Tally>& AllTallies() {
  static const auto* const kTallies = [] {
    auto* tallies = new std::map<std::string, Tally>;
    for (const OperatorDef* row : AllOperators().rows()) {
      if (!HasSpace(*row)) continue;
      Tally& tally = (*tallies)[NameOf(*row)];
      for (int i = 0; i < kDraws; ++i) {
        JudgeDraw(*row, static_cast<uint64_t>(i), &tally);
      }
    }
    return tallies;
  }();
  return *kTallies;
}

TEST(CentralDifferenceTest, EveryGradientIsThatOfItsOperator) {
  std::vector<std::string> wrong;
  for (const auto& [name, tally] : AllTallies()) {
    if (tally.wrong.empty()) continue;
    wrong.push_back(fmt::format("{}: {} of {}, {}", name, tally.wrong.size(),
                                tally.judged, tally.wrong[0]));
  }
  EXPECT_THAT(wrong, IsEmpty()) << fmt::format("{}", fmt::join(wrong, "\n"));
}

TEST(CentralDifferenceTest, EveryRuleIsTried) {
  std::vector<std::string> untried;
  std::set<std::string_view> by_hand;
  for (const OperatorDef* row : AllOperators().rows()) {
    const auto kind = GradientKindOf(*row);
    if (!kind.has_value() || *kind == GradientKind::kZero) continue;
    if (row->until <= kLeastOpset) continue;  // Where it cannot be raised.
    if (!HasSpace(*row)) {
      by_hand.insert(row->name);
      continue;
    }
    const Tally& tally = AllTallies().at(NameOf(*row));
    if (tally.judged < kLeastJudged) {
      untried.push_back(fmt::format("{}: {} of {} draws, {}", NameOf(*row),
                                    tally.judged, kDraws, tally.why_refused));
    }
  }
  EXPECT_THAT(untried, IsEmpty())
      << fmt::format("{}", fmt::join(untried, "\n"));
  // These have bodies: control_test.cc.
  EXPECT_THAT(by_hand, ElementsAre("If", "Loop", "Scan"));
}

// The list is for operators that are added before their gradients are known.
TEST(CentralDifferenceTest, WhatMakesFloatsOfFloatsHasAGradientOrIsListed) {
  std::set<std::string_view> without;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (!HasSpace(*row) || row->until <= kLeastOpset) continue;
    if (GradientKindOf(*row).has_value()) continue;
    if (AllTallies().at(NameOf(*row)).refused > 0) without.insert(row->name);
  }
  EXPECT_THAT(without, UnorderedElementsAreArray(OperatorsWithoutGradient()));
}

}  // namespace
}  // namespace nodewise
