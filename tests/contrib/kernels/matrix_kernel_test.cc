#include "nodewise/kernels/matrix_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace nodewise {
namespace {

std::vector<double> Drawn(std::mt19937_64& random, int64_t count) {
  std::uniform_real_distribution<double> numbers(-2, 2);
  std::vector<double> drawn(static_cast<size_t>(count));
  for (double& number : drawn) number = numbers(random);
  return drawn;
}

TEST(MatrixKernelTest, TermsAreSummedUpAtEveryLevel) {
  std::mt19937_64 random(1);
  for (const int64_t depth : {0, 1, 7, 8, 31, 32, 33, 200}) {
    const std::vector<double> a = Drawn(random, depth);
    const std::vector<double> b = Drawn(random, depth);
    double absolute = 0;
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      absolute += std::fabs(a[i] * b[i]);
      squares += a[i] * b[i] * a[i] * b[i];
    }
    for (const matrix_kernel::Level& level : matrix_kernel::AllLevels()) {
      if (!level.works_here()) continue;
      const auto sums = level.sum_terms(depth, a.data(), b.data());
      EXPECT_NEAR(sums.absolute, absolute, 1e-12 * absolute) << level.name;
      EXPECT_NEAR(sums.squares, squares, 1e-12 * squares) << level.name;
    }
  }
}

TEST(MatrixKernelTest, ATermThatIsNotANumberMakesBothSumsNone) {
  for (size_t place = 0; place < 40; ++place) {
    std::vector<double> a(40, 1);
    const std::vector<double> b(40, -1);
    a[place] = std::nan("");
    for (const matrix_kernel::Level& level : matrix_kernel::AllLevels()) {
      if (!level.works_here()) continue;
      const auto sums = level.sum_terms(40, a.data(), b.data());
      EXPECT_TRUE(std::isnan(sums.absolute)) << level.name << " " << place;
      EXPECT_TRUE(std::isnan(sums.squares)) << level.name << " " << place;
    }
  }
}

}  // namespace
}  // namespace nodewise
