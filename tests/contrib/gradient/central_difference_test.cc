// Gradients of all operators against central differences, on drawn cases in
// double. It goes through the rows of all operators, so that whoever adds one
// hears of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/gradient/double_case.h"

namespace nodewise {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// Operators that read and make floats, and have no gradient yet.
constexpr std::string_view kWithout[] = {
    "AffineGrid", "BitCast",    "Col2Im",     "Compress",
    "CumProd",    "DFT",        "DeformConv", "DequantizeLinear",
    "GridSample", "MaxRoiPool", "MaxUnpool",  "OneHot",
    "RoiAlign",   "STFT",       "Scatter",    "TreeEnsemble",
    "Unique",     "Upsample"};
// Older networks are raised to it.
constexpr int kLeastOpset = 16;
constexpr int kLeastJudged = 5;

constexpr int kDraws = 60;  // Of each row.
constexpr double kStep = 1e-4;
constexpr double kTolerance = 1e-5;
// A difference over twice the step tells how far the first one is off, and
// whether there is a kink in between.
constexpr double kMostCurved = 1e-4;

using Tensors = std::vector<NDArray>;

std::string NameOf(const OperatorDef& def) {
  return fmt::format("{} {}", def.name, def.since);
}

double Dot(const NDArray& a, const NDArray& b) {
  double sum = 0;
  for (int64_t i = 0; i < CountOf(a); ++i) {
    sum += a.As<double>()[i] * b.As<double>()[i];
  }
  return sum;
}

double SizeOf(const NDArray& a, const NDArray& b) {
  double sum = 0;
  for (int64_t i = 0; i < CountOf(a); ++i) {
    sum += std::fabs(a.As<double>()[i] * b.As<double>()[i]);
  }
  return sum;
}

bool IsFinite(const Tensors& tensors) {
  for (const NDArray& tensor : tensors) {
    if (!IsFloat(tensor.dtype())) continue;
    for (const double x : ToDoubles(tensor)) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

// One network, its gradient, and a point at which both are looked at.
class Point {
 public:
  Point(const Network& network, const GradientNetwork& gradient,
        RandomSource* random)
      : forward_(network), gradient_(gradient), random_(*random) {}

  // Returns what differs, "" for nothing, and none if nothing can be told here:
  // the operator refuses, or there is a kink.
  std::optional<std::string> Differs(const Tensors& inputs) {
    auto at = forward_.Run(inputs);
    if (!at.ok() || !IsFinite(*at)) return std::nullopt;
    Tensors all = inputs;
    Tensors cotangents;
    // What is as small beside the outputs is lost in their roundings.
    double size = 1e-6;
    for (const size_t output : gradient_.outputs) {
      if ((*at)[output].dtype() != kFloat64) return std::nullopt;
      cotangents.push_back(Direction((*at)[output].shape()));
      size += 1e-3 * SizeOf((*at)[output], cotangents.back());
    }
    all.insert(all.end(), cotangents.begin(), cotangents.end());
    auto gradients = Interpret(gradient_.network, all);
    if (!gradients.ok()) return std::string(gradients.status().message());
    Tensors directions;
    double expected = 0;
    for (size_t i = 0; i < gradients->size(); ++i) {
      const NDArray& each = (*gradients)[i];
      if (each.shape() != inputs[gradient_.inputs[i]].shape()) {
        return fmt::format("gradient {} has another shape", i);
      }
      directions.push_back(Direction(each.shape()));
      expected += Dot(each, directions[i]);
      size += SizeOf(each, directions[i]);
    }
    const auto near = Difference(inputs, cotangents, directions, kStep);
    const auto far = Difference(inputs, cotangents, directions, 2 * kStep);
    if (!near.has_value() || !far.has_value()) return std::nullopt;
    size = std::max(size, std::fabs(*near));
    const double curved = std::fabs(*near - *far);
    if (!(curved <= kMostCurved * size)) return std::nullopt;
    if (std::fabs(expected - *near) <= kTolerance * size + curved) return "";
    return fmt::format("gradient {}, central difference {}", expected, *near);
  }

 private:
  NDArray Direction(absl::Span<const int64_t> shape) {
    NDArray tensor = *NDArray::Empty(shape, kFloat64, kCpu);
    for (int64_t i = 0; i < CountOf(tensor); ++i) {
      tensor.As<double>()[i] =
          static_cast<double>(random_.Next() >> 11) * 0x1p-52 - 1;
    }
    return tensor;
  }

  // (f(x + h e) - f(x - h e)) / 2h, weighted.
  std::optional<double> Difference(const Tensors& inputs,
                                   const Tensors& cotangents,
                                   const Tensors& directions, double step) {
    double sum = 0;
    for (const double sign : {1.0, -1.0}) {
      Tensors moved = inputs;
      for (size_t i = 0; i < directions.size(); ++i) {
        NDArray& x = moved[gradient_.inputs[i]];
        x = InDouble(x);
        for (int64_t k = 0; k < CountOf(x); ++k) {
          x.As<double>()[k] += sign * step * directions[i].As<double>()[k];
        }
      }
      const auto outputs = forward_.Run(std::move(moved));
      if (!outputs.ok() || !IsFinite(*outputs)) return std::nullopt;
      for (size_t i = 0; i < cotangents.size(); ++i) {
        const NDArray& y = (*outputs)[gradient_.outputs[i]];
        if (y.shape() != cotangents[i].shape()) return std::nullopt;
        sum += sign * Dot(y, cotangents[i]);
      }
    }
    return sum / (2 * step);
  }

  const Interpreter forward_;
  const GradientNetwork& gradient_;
  RandomSource& random_;
};

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
  for (const OperatorDef* row : AllOperators().rows()) {
    const auto kind = GradientKindOf(*row);
    if (!kind.has_value() || *kind == GradientKind::kZero) continue;
    if (row->until <= kLeastOpset) continue;  // Where it cannot be raised.
    const Tally& tally = AllTallies().at(NameOf(*row));
    if (tally.judged < kLeastJudged) {
      untried.push_back(fmt::format("{}: {} of {} draws, {}", NameOf(*row),
                                    tally.judged, kDraws, tally.why_refused));
    }
  }
  EXPECT_THAT(untried, IsEmpty())
      << fmt::format("{}", fmt::join(untried, "\n"));
}

TEST(CentralDifferenceTest, WhatHasNoGradientYetIsListed) {
  std::set<std::string_view> without;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (!HasSpace(*row) || row->until <= kLeastOpset) continue;
    if (GradientKindOf(*row).has_value()) continue;
    if (AllTallies().at(NameOf(*row)).refused > 0) without.insert(row->name);
  }
  EXPECT_THAT(without, ElementsAreArray(kWithout));
}

}  // namespace
}  // namespace nodewise
