#include <algorithm>
#include <cmath>
#include <cstdio>

#include "nodewise/random/random.h"
#include "tests/contrib/ops/eval_support.h"

// The two error bounds of matrix products and convolutions against kernels that
// work in float32 and add in different orders.

namespace nodewise {
namespace {

constexpr uint64_t kSeed = 20250312;
constexpr int kCases = 5000;  // For each operator.

float LeftToRight(const Numbers& terms) {
  float sum = 0;
  for (const float term : terms) sum += term;
  return sum;
}
float Pairwise(const float* x, size_t n) {
  if (n == 1) return x[0];
  return Pairwise(x, n / 2) + Pairwise(x + n / 2, n - n / 2);
}
float InPairs(const Numbers& terms) {
  return Pairwise(terms.data(), terms.size());
}
float InLanes(const Numbers& terms) {
  Numbers lanes(16);
  for (size_t i = 0; i < terms.size(); ++i) lanes[i % 16] += terms[i];
  return LeftToRight(lanes);
}

// Draws numbers with one sign or both, of similar or very different sizes.
NDArray Draw(RandomSource& source, const std::vector<int64_t>& shape) {
  const int kind = static_cast<int>(source.Next() % 3);
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  auto* const values = tensor.As<float>();
  for (size_t i = 0; i < tensor.bytes() / sizeof(float); ++i) {
    const double v = source.Symmetric();
    values[i] = static_cast<float>(kind == 0   ? v
                                   : kind == 1 ? v + 1
                                               : v * std::exp(3 * v));
  }
  return tensor;
}
// 4 to 8,192.
int64_t DrawCount(RandomSource& source) {
  const double exponent = 2 + 11 * (source.Symmetric() + 1) / 2;
  return static_cast<int64_t>(std::exp2(exponent));
}

struct Tally {
  size_t elements = 0;
  size_t above_proved = 0;
  size_t above_expected = 0;
  // Left-to-right errors divided by the expected ones.
  std::vector<double> ratios;
};

void Count(const Numbers& terms, const Evaluated& result, size_t element,
           Tally* tally) {
  const double exact = result.outputs[0].As<float>()[element];
  const double proved = result.bounds[0].proved[element];
  const double expected = result.bounds[0].expected[element];
  for (const auto order : {&LeftToRight, &InPairs, &InLanes}) {
    const double error = std::fabs(order(terms) - exact);
    ++tally->elements;
    if (!(error <= proved)) ++tally->above_proved;
    if (!(error <= expected)) ++tally->above_expected;
    if (order == &LeftToRight) tally->ratios.push_back(error / expected);
  }
}

void ExpectBoundsHold(const char* name, Tally tally) {
  auto& ratios = tally.ratios;
  const auto middle =
      ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  std::printf(
      "%s: %zu elements, %zu above expected, expected is %.1f times "
      "the median error (seed %llu)\n",
      name, tally.elements, tally.above_expected, 1 / *middle,
      static_cast<unsigned long long>(kSeed));
  EXPECT_EQ(tally.above_proved, 0u);
  EXPECT_LE(static_cast<double>(tally.above_expected),
            1e-6 * static_cast<double>(tally.elements) + 0.5);
  EXPECT_LE(1 / *middle, 150);
}

TEST(ProductBoundsTest, HoldForMatMulInEveryOrder) {
  RandomSource source(kSeed);
  Tally tally;
  for (int i = 0; i < kCases; ++i) {
    const int64_t n = DrawCount(source);
    const NDArray a = Draw(source, {2, n});
    const NDArray b = Draw(source, {n, 3});
    const auto result = EvaluateAll({"MatMul"}, {a, b}, true);
    ASSERT_THAT(result, IsOk());
    for (int64_t element = 0; element < 6; ++element) {
      Numbers terms;
      for (int64_t k = 0; k < n; ++k) {
        terms.push_back(a.As<float>()[element / 3 * n + k] *
                        b.As<float>()[k * 3 + element % 3]);
      }
      Count(terms, *result, static_cast<size_t>(element), &tally);
    }
  }
  ExpectBoundsHold("MatMul", std::move(tally));
}

TEST(ProductBoundsTest, HoldForConvInEveryOrder) {
  RandomSource source(kSeed);
  Tally tally;
  for (int i = 0; i < kCases; ++i) {
    const int64_t channels = std::max<int64_t>(DrawCount(source) / 3, 2);
    const NDArray x = Draw(source, {1, channels, 4});
    const NDArray w = Draw(source, {2, channels, 3});
    const NDArray bias = Draw(source, {2});
    const auto result = EvaluateAll({"Conv"}, {x, w, bias}, true);
    ASSERT_THAT(result, IsOk());
    for (int64_t element = 0; element < 4; ++element) {
      const int64_t m = element / 2;
      Numbers terms = {bias.As<float>()[m]};
      for (int64_t k = 0; k < channels * 3; ++k) {
        terms.push_back(w.As<float>()[m * channels * 3 + k] *
                        x.As<float>()[k / 3 * 4 + element % 2 + k % 3]);
      }
      Count(terms, *result, static_cast<size_t>(element), &tally);
    }
  }
  ExpectBoundsHold("Conv", std::move(tally));
}

TEST(ProductBoundsTest, AllowAnythingWhereAKernelMayOverflow) {
  const auto result = EvaluateAll(
      {"MatMul"}, {Floats({3e38f, 3e38f, -3e38f}), Floats({1, 1, 1})}, true);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(std::isinf(result->bounds[0].proved[0]));
}

}  // namespace
}  // namespace nodewise
