#include <algorithm>
#include <cmath>
#include <cstdio>

#include "nodewise/random/random.h"
#include "tests/contrib/ops/eval_support.h"

// The error bounds of LSTM, GRU and RNN against cells in float32 that add from
// the left or from the right.

namespace nodewise {
namespace {

struct Sizes {
  int64_t steps;
  int64_t input;
  int64_t hidden;
};

NDArray Draw(RandomSource& source, const std::vector<int64_t>& shape,
             double size) {
  const NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (size_t i = 0; i < tensor.bytes() / sizeof(float); ++i) {
    tensor.As<float>()[i] = static_cast<float>(size * source.Symmetric());
  }
  return tensor;
}

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Sums of one step, by column, in float32.
class FloatCell {
 public:
  FloatCell(const std::vector<NDArray>& in, const Sizes& sizes, bool backwards)
      : in_(in), s_(sizes), backwards_(backwards) {}

  float Input(int64_t step, int64_t column) const {
    return Dot(in_[0].As<float>() + step * s_.input,
               in_[1].As<float>() + column * s_.input, s_.input);
  }
  float Recurrent(const Numbers& h, int64_t column) const {
    return Dot(h.data(), in_[2].As<float>() + column * s_.hidden, s_.hidden);
  }

 private:
  float Dot(const float* a, const float* b, int64_t n) const {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = backwards_ ? n - 1 - i : i;
      sum += a[k] * b[k];
    }
    return sum;
  }

  const std::vector<NDArray>& in_;
  const Sizes& s_;
  const bool backwards_;
};

// All steps of h.
Numbers RunLstm(const FloatCell& cell, const Sizes& s) {
  Numbers h(static_cast<size_t>(s.hidden)), c(h), all;
  for (int64_t t = 0; t < s.steps; ++t) {
    const Numbers before = h;
    for (int64_t i = 0; i < s.hidden; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto sum = [&](int64_t gate) {
        const int64_t column = gate * s.hidden + i;
        return cell.Input(t, column) + cell.Recurrent(before, column);
      };
      c[at] = Sigmoid(sum(2)) * c[at] + Sigmoid(sum(0)) * std::tanh(sum(3));
      h[at] = Sigmoid(sum(1)) * std::tanh(c[at]);
    }
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

Numbers RunGru(const FloatCell& cell, const Sizes& s) {
  Numbers h(static_cast<size_t>(s.hidden)), all;
  for (int64_t t = 0; t < s.steps; ++t) {
    const Numbers before = h;
    Numbers reset(h.size());
    for (int64_t i = 0; i < s.hidden; ++i) {
      const int64_t column = s.hidden + i;
      const auto at = static_cast<size_t>(i);
      reset[at] = before[at] * Sigmoid(cell.Input(t, column) +
                                       cell.Recurrent(before, column));
    }
    for (int64_t i = 0; i < s.hidden; ++i) {
      const auto at = static_cast<size_t>(i);
      const float z = Sigmoid(cell.Input(t, i) + cell.Recurrent(before, i));
      const int64_t column = 2 * s.hidden + i;
      const float next =
          std::tanh(cell.Input(t, column) + cell.Recurrent(reset, column));
      h[at] = (1 - z) * next + z * before[at];
    }
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

Numbers RunRnn(const FloatCell& cell, const Sizes& s) {
  Numbers h(static_cast<size_t>(s.hidden)), all;
  for (int64_t t = 0; t < s.steps; ++t) {
    const Numbers before = h;
    for (int64_t i = 0; i < s.hidden; ++i) {
      h[static_cast<size_t>(i)] =
          std::tanh(cell.Input(t, i) + cell.Recurrent(before, i));
    }
    all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

struct CellKind {
  const char* name;
  int64_t gates;
  Numbers (*run)(const FloatCell& cell, const Sizes& sizes);
};
constexpr CellKind kKinds[] = {
    {"LSTM", 4, &RunLstm}, {"GRU", 3, &RunGru}, {"RNN", 1, &RunRnn}};

class RecurrentBoundsTest : public testing::TestWithParam<CellKind> {};

TEST_P(RecurrentBoundsTest, AreKeptAndNotWide) {
  constexpr uint64_t kSeed = 20251121;
  const CellKind& kind = GetParam();
  RandomSource source(kSeed);
  std::vector<double> ratios;
  for (int i = 0; i < 200; ++i) {
    const Sizes s{1 + static_cast<int64_t>(source.Next() % 20),
                  1 + static_cast<int64_t>(source.Next() % 20),
                  1 + static_cast<int64_t>(source.Next() % 24)};
    const double size = i % 3 == 0 ? 2 : 0.4;
    const int64_t columns = kind.gates * s.hidden;
    const std::vector<NDArray> in = {
        Draw(source, {s.steps, 1, s.input}, 2),
        Draw(source, {1, columns, s.input}, size),
        Draw(source, {1, columns, s.hidden}, size)};
    const auto exact = EvaluateAll({kind.name, 14}, in, true);
    ASSERT_THAT(exact, IsOk());
    const Numbers found = kind.run(FloatCell(in, s, i % 2 == 1), s);
    for (size_t k = 0; k < found.size(); ++k) {
      const double error =
          std::fabs(double{found[k]} - exact->outputs[0].As<float>()[k]);
      ASSERT_LE(error, exact->bounds[0].proved[k])
          << "case " << i << " of seed " << kSeed << ", element " << k;
      ASSERT_LE(error, exact->bounds[0].expected[k])
          << "case " << i << " of seed " << kSeed << ", element " << k;
      ratios.push_back(error / exact->bounds[0].expected[k]);
    }
  }
  std::sort(ratios.begin(), ratios.end());
  const double middle = ratios[ratios.size() / 2];
  std::printf(
      "%s: %zu elements, expected is %.1f times the median error, the "
      "largest error %.2f of expected\n",
      kind.name, ratios.size(), 1 / middle, ratios.back());
  EXPECT_LE(1 / middle, 1000);
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentBoundsTest, testing::ValuesIn(kKinds),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(RecurrentBoundsTest, StepsBeyondTheEndAreExact) {
  const auto all = EvaluateAll(
      {"RNN", 14},
      {MakeTensor<float>({2, 1, 1}, {1, 1}), MakeTensor<float>({1, 1, 1}, {1}),
       MakeTensor<float>({1, 1, 1}, {1}), NDArray(),
       MakeTensor<int32_t>({1}, {1})},
      true);
  ASSERT_THAT(all, IsOk());
  EXPECT_GT(all->bounds[0].proved[0], 0);
  EXPECT_LT(all->bounds[0].proved[1], 1e-40);
}

}  // namespace
}  // namespace nodewise
