#include "nodewise/kernels/vector_math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace nodewise {
namespace {

using vector_math::AllLevels;
using vector_math::Level;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();

struct Function {
  const char* name;
  void (*Level::*all)(double* x, int64_t n);
  double (*of)(double);
  // The range where results are neither 0 nor infinite, nor all equal.
  double from;
  double to;
  int64_t most_apart;  // The error that is allowed, and the C library's.
};
const Function kFunctions[] = {
    {"exp", &Level::exp_all, [](double x) { return std::exp(x); }, -746, 710,
     2},
    {"erf", &Level::erf_all, [](double x) { return std::erf(x); }, -6.5, 6.5,
     2},
    {"tanh", &Level::tanh_all, [](double x) { return std::tanh(x); }, -21, 21,
     4},
};

// Numbers of all sizes, and more in the range.
std::vector<double> Samples(const Function& function) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(function.from, function.to);
  std::uniform_real_distribution<double> narrow(-1.5, 1.5);
  std::vector<double> samples;
  for (int i = 0; i < 30'001; ++i) {
    samples.push_back(std::bit_cast<double>(random()));
    samples.push_back(wide(random));
    samples.push_back(narrow(random));
  }
  return samples;
}

// Returns the distance in doubles of two numbers of equal sign.
int64_t Distance(double a, double b) {
  if (std::signbit(a) != std::signbit(b)) return INT64_MAX;
  return std::abs(std::bit_cast<int64_t>(a) - std::bit_cast<int64_t>(b));
}

TEST(VectorMathTest, ResultsAreThoseOfTheCLibraryUpToTheLastDigit) {
  for (const Function& function : kFunctions) {
    const std::vector<double> x = Samples(function);
    for (const Level& level : AllLevels()) {
      if (!level.works_here()) continue;
      std::vector<double> y = x;
      (level.*function.all)(y.data(), static_cast<int64_t>(y.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = function.of(x[i]);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(y[i])) << level.name;
          continue;
        }
        ASSERT_LE(Distance(y[i], expected), function.most_apart)
            << level.name << ": " << function.name << "(" << x[i] << ")";
      }
    }
  }
}

TEST(VectorMathTest, WhatIsAtTheEdgesIsExact) {
  struct Case {
    double x;
    double exp;
    double erf;
  };
  const Case cases[] = {
      {0, 1, 0},        {-0.0, 1, -0.0},     {kInf, kInf, 1},
      {-kInf, 0, -1},   {kTiny, 1, kTiny},   {-kTiny, 1, -kTiny},
      {1e300, kInf, 1}, {-1e300, 0, -1},     {709.79, kInf, 1},
      {-745.2, 0, -1},  {-745.1, kTiny, -1},
  };
  for (const Level& level : AllLevels()) {
    if (!level.works_here()) continue;
    for (const Case& one : cases) {
      double exp = one.x;
      double erf = one.x;
      level.exp_all(&exp, 1);
      level.erf_all(&erf, 1);
      EXPECT_EQ(exp, one.exp) << level.name << ": " << one.x;
      EXPECT_EQ(erf, one.erf) << level.name << ": " << one.x;
      EXPECT_EQ(std::signbit(erf), std::signbit(one.x)) << level.name;
    }
  }
}

TEST(VectorMathTest, NanStaysNanWhereverItStands) {
  for (const Level& level : AllLevels()) {
    if (!level.works_here()) continue;
    for (size_t at = 0; at < 19; ++at) {
      std::vector<double> x(19, 0.5);
      x[at] = kNan;
      std::vector<double> y = x;
      level.exp_all(x.data(), 19);
      level.erf_all(y.data(), 19);
      for (size_t i = 0; i < 19; ++i) {
        EXPECT_EQ(std::isnan(x[i]), i == at) << level.name;
        EXPECT_EQ(std::isnan(y[i]), i == at) << level.name;
      }
    }
  }
}

}  // namespace
}  // namespace nodewise
