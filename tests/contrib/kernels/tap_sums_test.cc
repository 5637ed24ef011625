#include "nodewise/kernels/tap_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

// A convolution: each item reads channels of its own, and all the same weights.
struct Case {
  WindowGeometry geometry;
  int64_t channels = 1;
  ProductSizes sizes;
  std::vector<float> x;
  std::vector<float> weights;
};

class CaseDrawer {
 public:
  explicit CaseDrawer(uint64_t seed) : random_(seed) {}

  Case Draw() {
    Case drawn;
    WindowGeometry& g = drawn.geometry;
    const int64_t sides = Number(1, 3);
    for (int64_t s = 0; s < sides; ++s) AddSide(s + 1 == sides, &g);
    drawn.channels = Number(1, 3);
    ProductSizes& sizes = drawn.sizes;
    sizes.items = Number(1, 12);
    sizes.rows = Number(1, 21);
    sizes.columns = Product(g.output);
    sizes.depth = drawn.channels * Product(g.kernel);
    sizes.right_is_side_by_side = true;
    drawn.x = Numbers(sizes.items * drawn.channels * Product(g.input));
    drawn.weights = Numbers(sizes.rows * sizes.depth);
    return drawn;
  }

 private:
  void AddSide(bool is_last, WindowGeometry* g) {
    g->kernel.push_back(Number(1, 5));
    g->strides.push_back(Number(1, 3));
    g->dilations.push_back(Number(1, 3));
    g->spread.push_back(1);
    const int64_t reach = (g->kernel.back() - 1) * g->dilations.back();
    g->input.push_back(Number(1, is_last ? 90 : 7));
    const int64_t before = Number(0, 4);
    g->offsets.push_back(-before);
    const int64_t size = g->input.back() + before + Number(0, 4) - reach;
    g->output.push_back(size < 1 ? 1 : (size - 1) / g->strides.back() + 1);
  }

  int64_t Number(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }
  std::vector<float> Numbers(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(normal(random_));
    return numbers;
  }

  std::mt19937_64 random_;
};

// All sums, by item, row and column.
class Stored {
 public:
  explicit Stored(const ProductSizes& sizes)
      : sizes_(sizes),
        sums_(static_cast<size_t>(sizes.items * sizes.rows * sizes.columns),
              std::nan("")) {}

  void Store(const ProductTile& tile) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t begin =
          (tile.item * sizes_.rows + tile.row + r) * sizes_.columns +
          tile.column;
      std::copy_n(tile.Row(r), tile.columns, sums_.begin() + begin);
    }
  }
  const std::vector<double>& sums() const { return sums_; }

 private:
  const ProductSizes& sizes_;
  std::vector<double> sums_;
};

TEST(TapSumsTest, AreWhatTheMatrixProductIs) {
  const uint64_t first = FirstSeed();
  int tried = 0;
  for (int i = 0; i < NumCases(200, 3000); ++i) {
    const Case one = CaseDrawer(first + static_cast<uint64_t>(i)).Draw();
    const TapSums taps{one.geometry, one.channels, kFloat32, one.x.data()};
    if (!IsFasterByTaps(taps, one.sizes)) continue;
    ++tried;
    const WindowColumns columns(one.geometry, kFloat32, 0);
    const Factor weights{kFloat32, one.weights.data(), one.sizes.depth, 1};
    const auto left = [&](const Strips& strips) {
      PackFactor(weights, strips);
    };
    const auto right = [&](const Strips& strips) {
      columns.Pack(
          one.x.data() + strips.item * one.channels * columns.image_size(),
          strips);
    };
    for (const Terms terms :
         {Terms::kPlain, Terms::kAbsolute, Terms::kSquared}) {
      Stored expected(one.sizes);
      Stored found(one.sizes);
      MultiplyMatrices(one.sizes, terms, left, right,
                       [&](const ProductTile& tile) { expected.Store(tile); });
      SumByTaps(taps, one.sizes, terms, left,
                [&](const ProductTile& tile) { found.Store(tile); });
      for (size_t at = 0; at < found.sums().size(); ++at) {
        ASSERT_NEAR(found.sums()[at], expected.sums()[at], 1e-11)
            << "element " << at
            << " (NODEWISE_SEED=" << first + static_cast<uint64_t>(i) << ")";
      }
    }
  }
  std::printf("seed %llu: %d cases\n", static_cast<unsigned long long>(first),
              tried);
  EXPECT_GT(tried, 20);
}

TEST(TapSumsTest, PaddingTimesAnInfiniteWeightIsNotANumber) {
  const WindowGeometry geometry{{1, 3}, {1, 1},  {1, 1}, {0, -1},
                                {1, 1}, {1, 32}, {1, 32}};
  const std::vector<float> x(32 * 8, 1.0F);
  const std::vector<float> weights = {INFINITY, 1, 1};
  const TapSums taps{geometry, 1, kFloat32, x.data()};
  const ProductSizes sizes{8, 1, 32, 3, true};
  ASSERT_TRUE(IsFasterByTaps(taps, sizes));
  Stored found(sizes);
  SumByTaps(
      taps, sizes, Terms::kPlain,
      [&](const Strips& strips) {
        PackFactor({kFloat32, weights.data(), 3, 1}, strips);
      },
      [&](const ProductTile& tile) { found.Store(tile); });
  EXPECT_TRUE(std::isnan(found.sums()[0]));
  EXPECT_TRUE(std::isinf(found.sums()[1]));
}

}  // namespace
}  // namespace nodewise
