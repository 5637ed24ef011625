// What is differentiated in the place of an operator computes what the operator
// does, on drawn cases in double.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/gradient/double_case.h"

namespace nodewise {
namespace {

using ::testing::IsEmpty;

// Definitions may divide and take roots of what is small.
constexpr double kOtherRoundings = 1e-9;

// Returns what differs, "" for nothing, and none where the operator itself
// makes no finite numbers.
std::optional<std::string> Differs(const Network& network,
                                   const Network& written,
                                   const std::vector<NDArray>& inputs) {
  const auto expected = Interpret(network, inputs);
  if (!expected.ok()) return std::nullopt;
  const auto found = Interpret(written, inputs);
  if (!found.ok()) return std::string(found.status().message());
  for (size_t i = 0; i < expected->size(); ++i) {
    const NDArray& y = (*expected)[i];
    if (y.shape() != (*found)[i].shape()) return "another shape";
    const std::vector<double> of_operator = ToDoubles(y);
    const std::vector<double> of_definition = ToDoubles((*found)[i]);
    for (size_t k = 0; k < of_operator.size(); ++k) {
      const double one = of_operator[k];
      if (!std::isfinite(one)) return std::nullopt;
      const double size = std::max(1.0, std::fabs(one));
      if (std::fabs(one - of_definition[k]) <= kOtherRoundings * size) continue;
      return fmt::format("output {} has {} at {}, expected {}", i,
                         of_definition[k], k, one);
    }
  }
  return "";
}

TEST(WrittenOutTest, WhatIsDifferentiatedComputesWhatTheOperatorDoes) {
  std::vector<std::string> wrong;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (GradientKindOf(*row) != GradientKind::kDefinition) continue;
    if (!HasSpace(*row)) continue;
    int judged = 0;
    for (uint64_t number = 0; number < kDraws; ++number) {
      const auto one = DrawDoubleCase(*row, number);
      if (!one.ok()) continue;
      const auto written = WrittenOut(one->network, one->wanted);
      if (!written.ok()) continue;
      RandomSource random(number, "numbers");
      for (const Interval& interval : kIntervals) {
        const auto differs =
            Differs(one->network, *written,
                    DrawDoubleInputs(*one, number, interval, &random));
        if (!differs.has_value()) continue;
        ++judged;
        if (differs->empty()) break;
        wrong.push_back(fmt::format("{} {}, draw {}: {}: {}", row->name,
                                    row->since, number, ToString(one->made),
                                    *differs));
        break;
      }
    }
    if (judged >= kLeastJudged || row->until <= kLeastOpset) continue;
    wrong.push_back(
        fmt::format("{} {}: {} draws", row->name, row->since, judged));
  }
  EXPECT_THAT(wrong, IsEmpty()) << fmt::format("{}", fmt::join(wrong, "\n"));
}

}  // namespace
}  // namespace nodewise
