// Definitions of operators by simpler ones, against the operators themselves:
// on drawn cases in double, row by row, so that it also tests definitions that
// are added later.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/attention.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "tests/contrib/lab/gradient/double_case.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kDrawsOfDefinition = 200;  // For each row.
constexpr int kLeastDefined = 20;
constexpr double kMostRounded = 1e-9;

// Returns "" if the tensors are equal but for roundings.
std::string Difference(const NDArray& expected, const NDArray& found) {
  if (expected.shape() != found.shape()) return "the shapes differ";
  if (!(expected.dtype() == found.dtype())) return "the types differ";
  const std::vector<double> a = ToDoubles(expected);
  const std::vector<double> b = ToDoubles(found);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::fabs(a[i] - b[i]) <= kMostRounded * (1 + std::fabs(a[i])))
      continue;
    return fmt::format("element {} is {}, expected {}", i, b[i], a[i]);
  }
  return "";
}

// Returns what differs, "" for nothing, and none if the operator refuses.
absl::StatusOr<std::string> Judge(const OperatorDef& def, uint64_t number) {
  NODEWISE_ASSIGN_OR_RETURN(const DoubleCase one, DrawDoubleCase(def, number));
  NODEWISE_ASSIGN_OR_RETURN(const Network network,
                            WrittenOut(one.network, one.wanted));
  RandomSource random(number, "numbers");
  for (const Interval& interval : kIntervals) {
    const auto inputs = DrawDoubleInputs(one, number, interval, &random);
    const auto expected = Interpret(one.network, inputs);
    if (!expected.ok()) continue;
    NODEWISE_ASSIGN_OR_RETURN(const auto found, Interpret(network, inputs));
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string differs = Difference((*expected)[i], found[i]);
      if (differs.empty()) continue;
      return fmt::format("draw {}: {}: output {}: {}", number,
                         ToString(one.made), i, differs);
    }
    return "";
  }
  return absl::NotFoundError("the operator refuses all numbers");
}

TEST(DefinitionsTest, EachComputesWhatItsOperatorDoes) {
  std::vector<std::string> wrong;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (row->until <= kLeastOpset) continue;  // Some cannot be raised.
    if (!HasSpace(*row) || GradientKindOf(*row) != GradientKind::kDefinition) {
      continue;
    }
    int judged = 0;
    std::string why;
    for (uint64_t i = 0; i < kDrawsOfDefinition; ++i) {
      const auto differs = Judge(*row, i);
      if (!differs.ok()) {
        why = std::string(differs.status().message());
        continue;
      }
      ++judged;
      if (differs->empty()) continue;
      wrong.push_back(
          fmt::format("{} {}: {}", row->name, row->since, *differs));
      break;
    }
    if (judged < kLeastDefined) {
      wrong.push_back(fmt::format("{} {}: {} of {} draws were judged, {}",
                                  row->name, row->since, judged,
                                  kDrawsOfDefinition, why));
    }
  }
  EXPECT_THAT(wrong, IsEmpty()) << fmt::format("{}", fmt::join(wrong, "\n"));
}

// A query that sees no key gives zeros, and so does what reaches its inputs.
TEST(DefinitionsTest, AQueryThatAMaskHidesAllKeysFromHasNoNaN) {
  Network network("attention");
  ASSERT_TRUE(network.SetOpset("", 23).ok());
  std::vector<ValueId> inputs;
  const TensorType heads(kFloat64, {1, 1, 2, 2});
  for (const char* name : {"q", "k", "v"}) {
    inputs.push_back(*network.AddInput(name, heads));
  }
  inputs.push_back(*network.AddInput("mask", TensorType(kFloat64, {2, 2})));
  const auto y = network.Add(AllOperators(), ops::Attention23{}, inputs);
  ASSERT_TRUE(y.ok());
  ASSERT_TRUE(network.SetOutputs({*y}).ok());
  const auto made = GradientOf(network, FloatInputs(network));
  ASSERT_TRUE(made.ok()) << made.status();
  const NDArray ones = *NDArray::Empty({1, 1, 2, 2}, kFloat64, kCpu);
  const double numbers[] = {1, 2, 3, 4};
  StoreDoubles(numbers, 0, 4, ones);
  const NDArray mask = *NDArray::Empty({2, 2}, kFloat64, kCpu);
  const double lowest = -std::numeric_limits<double>::infinity();
  const double hidden[] = {0, lowest, lowest, lowest};
  StoreDoubles(hidden, 0, 4, mask);
  const auto gradients =
      Interpret(made->network, {ones, ones, ones, mask, ones});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  // The first query sees the first value alone.
  EXPECT_THAT(ToDoubles((*gradients)[0]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ToDoubles((*gradients)[1]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ToDoubles((*gradients)[2]), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(ToDoubles((*gradients)[3]), ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace nodewise
