#include <algorithm>
#include <cmath>
#include <cstdio>

#include "nodewise/random/random.h"
#include "tests/contrib/ops/eval_support.h"

// The two error bounds of reductions and Softmax against kernels that work in
// float32 and add in different orders.

namespace nodewise {
namespace {

constexpr uint64_t kSeed = 20250311;
constexpr int kCases = 10000;
constexpr int64_t kRows = 4;

float LeftToRight(const Numbers& x) {
  float sum = 0;
  for (const float term : x) sum += term;
  return sum;
}
float Pairwise(const float* x, size_t n) {
  if (n == 1) return x[0];
  return Pairwise(x, n / 2) + Pairwise(x + n / 2, n - n / 2);
}
float InPairs(const Numbers& x) { return Pairwise(x.data(), x.size()); }
float InLanes(const Numbers& x) {
  Numbers lanes(16);
  for (size_t i = 0; i < x.size(); ++i) lanes[i % 16] += x[i];
  return LeftToRight(lanes);
}
using Order = float (*)(const Numbers&);

template <typename F>
Numbers Each(Numbers x, F f) {
  for (float& value : x) value = f(value);
  return x;
}
float Peak(const Numbers& x) { return *std::max_element(x.begin(), x.end()); }

// The results of a kernel for one row.
struct Kernel {
  const char* name;
  Numbers (*run)(const Numbers& x, Order sum);
};
const Kernel kKernels[] = {
    {"ReduceSum", [](const Numbers& x, Order sum) { return Numbers{sum(x)}; }},
    {"ReduceMean",
     [](const Numbers& x, Order sum) {
       return Numbers{sum(x) / static_cast<float>(x.size())};
     }},
    {"ReduceSumSquare",
     [](const Numbers& x, Order sum) {
       return Numbers{sum(Each(x, [](float v) { return v * v; }))};
     }},
    {"ReduceL1",
     [](const Numbers& x, Order sum) {
       return Numbers{sum(Each(x, [](float v) { return std::fabs(v); }))};
     }},
    {"ReduceL2",
     [](const Numbers& x, Order sum) {
       return Numbers{std::sqrt(sum(Each(x, [](float v) { return v * v; })))};
     }},
    {"ReduceLogSumExp",
     [](const Numbers& x, Order sum) {
       const float peak = Peak(x);
       const float total =
           sum(Each(x, [=](float v) { return std::exp(v - peak); }));
       return Numbers{std::log(total) + peak};
     }},
    {"Softmax",
     [](const Numbers& x, Order sum) {
       const float peak = Peak(x);
       Numbers y = Each(x, [=](float v) { return std::exp(v - peak); });
       const float total = sum(y);
       return Each(y, [=](float v) { return v / total; });
     }},
    {"LogSoftmax",
     [](const Numbers& x, Order sum) {
       const float peak = Peak(x);
       const float total =
           sum(Each(x, [=](float v) { return std::exp(v - peak); }));
       return Each(x, [=](float v) { return v - peak - std::log(total); });
     }},
};

// Draws terms with one sign or both, of similar or very different sizes.
Numbers DrawTerms(RandomSource& source, size_t count) {
  const int kind = static_cast<int>(source.Next() % 4);
  Numbers x(count);
  for (float& value : x) {
    const double v = source.Symmetric();
    value = static_cast<float>(kind == 0   ? v
                               : kind == 1 ? v + 1
                               : kind == 2 ? v * v * v * 8
                                           : v * std::exp(3 * v));
  }
  return x;
}
size_t DrawCount(RandomSource& source) {
  const double exponent = 2 + 11 * (source.Symmetric() + 1) / 2;
  return static_cast<size_t>(std::exp2(exponent));  // 4 to 8,192.
}

struct Tally {
  size_t elements = 0;
  size_t above_proved = 0;
  size_t above_expected = 0;
  // Left-to-right errors divided by the expected ones.
  std::vector<double> ratios;
};

void Count(const Kernel& kernel, const Numbers& x, const float* y,
           const double* proved, const double* expected, Tally* tally) {
  for (const Order order : {&LeftToRight, &InPairs, &InLanes}) {
    const Numbers found = kernel.run(x, order);
    for (size_t i = 0; i < found.size(); ++i) {
      const double error = std::fabs(double{found[i]} - y[i]);
      ++tally->elements;
      tally->above_proved += error <= proved[i] ? 0 : 1;
      tally->above_expected += error <= expected[i] ? 0 : 1;
      if (order == &LeftToRight && i < 16) {
        // Most logarithms are right to the last bit; the rounding to a float
        // still counts as an error.
        const double least = std::fabs(double{y[i]}) * 0x1p-25;
        tally->ratios.push_back(std::max(error, least) / expected[i]);
      }
    }
  }
}

void RunCase(const Kernel& kernel, RandomSource& source, Tally* tally) {
  const size_t count = DrawCount(source);
  Numbers all;
  for (int64_t row = 0; row < kRows; ++row) {
    const Numbers x = DrawTerms(source, count);
    all.insert(all.end(), x.begin(), x.end());
  }
  const bool is_reduction = kernel.name[0] == 'R';
  std::vector<NDArray> inputs = {
      MakeTensor<float>({kRows, static_cast<int64_t>(count)}, all)};
  if (is_reduction) inputs.push_back(MakeTensor<int64_t>({1}, {1}));
  const auto evaluated =
      EvaluateAll({kernel.name, kNewestOpset}, std::move(inputs), true);
  ASSERT_THAT(evaluated, IsOk());
  const size_t results = is_reduction ? 1 : count;
  const Numbers y = ValuesOf(evaluated->outputs[0]);
  for (size_t row = 0; row < kRows; ++row) {
    const Numbers x(all.begin() + static_cast<int64_t>(row * count),
                    all.begin() + static_cast<int64_t>((row + 1) * count));
    Count(kernel, x, y.data() + row * results,
          evaluated->bounds[0].proved.data() + row * results,
          evaluated->bounds[0].expected.data() + row * results, tally);
  }
}

class ReduceBoundsTest : public testing::TestWithParam<Kernel> {};

TEST_P(ReduceBoundsTest, AreKeptAndNotWide) {
  RandomSource source(kSeed, GetParam().name);
  Tally tally;
  const int cases = kCases / static_cast<int>(std::size(kKernels));
  for (int i = 0; i < cases; ++i) RunCase(GetParam(), source, &tally);
  std::nth_element(
      tally.ratios.begin(),
      tally.ratios.begin() + static_cast<int64_t>(tally.ratios.size() / 2),
      tally.ratios.end());
  const double width = 1 / tally.ratios[tally.ratios.size() / 2];
  std::printf(
      "seed %u: %zu elements, %zu above proved, %zu above expected, "
      "which is %.1f times the median error\n",
      static_cast<unsigned>(kSeed), tally.elements, tally.above_proved,
      tally.above_expected, width);
  EXPECT_EQ(tally.above_proved, 0u);
  EXPECT_LE(tally.above_expected, tally.elements / 1000000);
  EXPECT_LE(width, 150);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ReduceBoundsTest, testing::ValuesIn(kKernels),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace nodewise
