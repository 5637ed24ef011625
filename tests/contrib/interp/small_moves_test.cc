#include "contrib/interp/small_moves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const DLDataType kTypes[] = {kFloat16, kBfloat16, kFloat32, kFloat64};

NDArray Stored(const std::vector<double>& values, DLDataType dtype) {
  const auto count = static_cast<int64_t>(values.size());
  NDArray tensor = NDArray::Empty({count}, dtype, kCpu).value();
  StoreDoubles(values.data(), 0, count, tensor);
  return tensor;
}

// Numbers of all sizes and both signs, and those at the edges of the types.
NDArray Numbers(DLDataType dtype) {
  std::vector<double> values = {
      0,      -0.0,  1,    -1,   65504, 3.4e38, -3.4e38, 1.79e308, 1e-45,
      -3e-45, 1e-40, 6e-8, kInf, -kInf, kNan,   2,       0x1p-126};
  RandomSource random(1, "numbers");
  for (int i = 0; i < 400; ++i) {
    values.push_back(random.Symmetric() * std::exp2(20 * random.Symmetric()));
  }
  return Stored(values, dtype);
}

// How far each number may go, as MoveAll() is told.
double BoundOf(const LeastBounds& bounds, DLDataType dtype, double x) {
  return x == 0 ? 0
                : bounds.roundoffs * UnitRoundoff(dtype) * std::fabs(x) +
                      bounds.half_ulps * HalfUlp(dtype, x);
}

TEST(SmallMovesTest, NoNumberMovesBeyondItsBoundAndMostComeNearIt) {
  for (const DLDataType dtype : kTypes) {
    for (const LeastBounds& bounds :
         {LeastBounds{0, 0}, LeastBounds{0, 1}, LeastBounds{0, 2},
          LeastBounds{3, 1}, LeastBounds{50.3, 0}}) {
      const NDArray from = Numbers(dtype);
      const auto moved = MoveAll(from, bounds);
      ASSERT_THAT(moved, IsOk());
      const std::vector<double> x = ToDoubles(from);
      const std::vector<double> y = ToDoubles(*moved);
      int near = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i])) {
          EXPECT_TRUE(y[i] == x[i] || std::isnan(x[i])) << x[i];
          continue;
        }
        const double bound = BoundOf(bounds, dtype, x[i]);
        EXPECT_LE(std::fabs(y[i] - x[i]), bound) << x[i];
        EXPECT_GE(std::fabs(y[i]), std::fabs(x[i]));
        // The next number is further away.
        near += std::fabs(y[i] - x[i]) + 2 * HalfUlp(dtype, y[i]) > bound;
      }
      EXPECT_GE(near, 300);
    }
  }
}

TEST(SmallMovesTest, NumbersMoveFurtherTheWayTheyWent) {
  for (const DLDataType dtype : kTypes) {
    const NDArray middle = Numbers(dtype);
    const std::vector<double> x = ToDoubles(middle);
    std::vector<double> via = x;
    for (size_t i = 0; i < via.size(); ++i) {
      const double ulps = static_cast<double>(i % 9) - 4;
      if (std::isfinite(x[i])) via[i] += 2 * ulps * HalfUlp(dtype, x[i]);
    }
    const NDArray moved = Stored(via, dtype);
    via = ToDoubles(moved);
    for (const LeastBounds& own : {LeastBounds{0, 0}, LeastBounds{2, 1}}) {
      const auto further = MoveFurther(middle, moved, own, 1);
      ASSERT_THAT(further, IsOk());
      const std::vector<double> y = ToDoubles(*further);
      int further_on = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]) || !std::isfinite(via[i])) continue;
        const double distance = std::fabs(via[i] - x[i]);
        const double bound = std::fmax(distance, BoundOf(own, dtype, x[i])) +
                             (x[i] == 0 ? 0 : HalfUlp(dtype, x[i]));
        EXPECT_LE(std::fabs(y[i] - x[i]), bound) << x[i];
        further_on += std::fabs(y[i] - x[i]) >= distance &&
                      (via[i] - x[i]) * (y[i] - x[i]) >= 0;
      }
      EXPECT_GE(further_on, 300);
    }
  }
}

TEST(SmallMovesTest, OnlyWhatIsFurtherThanTheEndOrItsOwnBoundIsBeyond) {
  const NDArray middle = Stored({1, 1, 1, 1, kNan, kInf}, kFloat32);
  const NDArray end = Stored({1.5, 1.5, 0.5, 1, kNan, kInf}, kFloat32);
  const NDArray actual = Stored({1.5, 1.75, 1.5, 1.25, kNan, kInf}, kFloat32);
  EXPECT_EQ(ElementsBeyond({middle, end}, actual),
            (std::vector<int64_t>{1, 3}));
  const LeastBounds own{0x1p22, 0};  // A quarter of each number.
  EXPECT_EQ(ElementsBeyond({middle, end, own}, actual),
            (std::vector<int64_t>{1}));
  EXPECT_EQ(ElementsBeyond(middle, {0.25, 0.25}, actual),
            (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace nodewise
