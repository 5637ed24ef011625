// Gradients for the regions of RoiAlign, which drawn cases have decided on, and
// what becomes of regions that lie outside of the map or are very long.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/roi.h"
#include "nodewise/random/random.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

constexpr int64_t kRegions = 3;

NDArray DoublesOf(const std::vector<int64_t>& shape,
                  const std::vector<double>& numbers) {
  NDArray tensor = *NDArray::Empty(shape, kFloat64, kCpu);
  StoreDoubles(numbers.data(), 0, CountOf(tensor), tensor);
  return tensor;
}

Network NetworkWith(const ops::RoiAlign& op) {
  Network net("net");
  const ValueId x = *net.AddInput("x", TensorType(kFloat64, {2, 2, 6, 7}));
  const ValueId rois =
      *net.AddInput("rois", TensorType(kFloat64, {kRegions, 4}));
  const ValueId images =
      *net.AddInput("images", TensorType(kInt64, {kRegions}));
  EXPECT_THAT(net.SetOutputs({*net.Add(AllOperators(), op, {x, rois, images})}),
              IsOk());
  return net;
}

std::vector<NDArray> InputsWith(const std::vector<double>& regions) {
  RandomSource random(1, "map");
  NDArray images = *NDArray::Empty({kRegions}, kInt64, kCpu);
  for (int64_t i = 0; i < kRegions; ++i) images.As<int64_t>()[i] = i % 2;
  return {*RandomTensor(random, {2, 2, 6, 7}, kFloat64),
          DoublesOf({kRegions, 4}, regions), images};
}

// All ways to count points and pixels.
std::vector<ops::RoiAlign> AllWays() {
  std::vector<ops::RoiAlign> ways;
  for (const auto mode : {ops::RoiMode::kAverage, ops::RoiMode::kMax}) {
    for (const auto pixels :
         {ops::RoiPixels::kHalf, ops::RoiPixels::kOutputHalf}) {
      for (const int64_t points : {0, 2}) {
        ops::RoiAlign op;
        op.mode = mode;
        op.coordinate_transformation_mode = pixels;
        op.sampling_ratio = points;
        op.output_height = 2;
        op.output_width = 3;
        ways.push_back(op);
      }
    }
  }
  return ways;
}

std::string NameOf(const ops::RoiAlign& op) {
  return fmt::format("mode {}, pixels {}, points {}", static_cast<int>(op.mode),
                     static_cast<int>(op.coordinate_transformation_mode),
                     op.sampling_ratio);
}

TEST(RegionGradientTest, CornersHaveDerivatives) {
  const std::vector<double> regions = {0.31, 0.43, 4.13, 3.77, 1.21, 2.17,
                                       5.83, 5.39, -1.3, -0.9, 3.2,  2.6};
  constexpr double kSmall = 1e-6;
  for (const ops::RoiAlign& op : AllWays()) {
    SCOPED_TRACE(NameOf(op));
    const Network net = NetworkWith(op);
    const auto gradient = GradientOf(net, std::vector<size_t>{1});
    ASSERT_THAT(gradient, IsOk());
    std::vector<NDArray> inputs = InputsWith(regions);
    RandomSource random(2, "weights");
    const NDArray weights =
        *RandomTensor(random, {kRegions, 2, 2, 3}, kFloat64);
    const auto weighed = [&](const std::vector<double>& moved) {
      const auto y = Interpret(
          net, {inputs[0], DoublesOf({kRegions, 4}, moved), inputs[2]});
      double sum = 0;
      for (int64_t i = 0; i < CountOf(weights); ++i) {
        sum += (*y)[0].As<double>()[i] * weights.As<double>()[i];
      }
      return sum;
    };
    inputs.push_back(weights);
    const auto found = Interpret(gradient->network, inputs);
    ASSERT_THAT(found, IsOk());
    for (size_t i = 0; i < regions.size(); ++i) {
      std::vector<double> more = regions;
      std::vector<double> less = regions;
      more[i] += kSmall;
      less[i] -= kSmall;
      EXPECT_NEAR((*found)[0].As<double>()[i],
                  (weighed(more) - weighed(less)) / (2 * kSmall), 1e-6)
          << i;
    }
  }
}

// Returns the network with its regions as a constant.
Network Frozen(Network net, const std::vector<NDArray>& inputs) {
  EXPECT_THAT(net.Freeze(net.inputs()[1], inputs[1]), IsOk());
  return net;
}

void ExpectSame(const Network& net, const Network& written,
                const std::vector<NDArray>& inputs) {
  const auto expected = Interpret(net, inputs);
  const auto found = Interpret(written, inputs);
  ASSERT_THAT(expected, IsOk());
  ASSERT_THAT(found, IsOk());
  const std::vector<double> numbers = ToDoubles((*expected)[0]);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR((*found)[0].As<double>()[i], numbers[i], 1e-9) << i;
  }
}

// Points outside count nothing, however many they are.
TEST(RegionGradientTest, RegionsMayLieAnywhere) {
  const std::vector<std::vector<double>> all = {
      {-50, -40, 90, 70, 3, 2, 100, 4, -90, -7, -2, 3},
      {2, 2, 2, 2, 5, 5, 1, 1, 6.5, 5.5, 8, 8},
      {-1.5, -1.5, 7.5, 6.5, 0, 0, 7, 6, 100, 100, 120, 120},
      {-200, 0, 200, 5, 0, -200, 6, 200, 3, 3, 3.25, 3.5}};
  for (const ops::RoiAlign& op : AllWays()) {
    for (size_t k = 0; k < all.size(); ++k) {
      SCOPED_TRACE(fmt::format("{}, regions {}", NameOf(op), k));
      const Network net = NetworkWith(op);
      const std::vector<NDArray> inputs = InputsWith(all[k]);
      const auto written = WrittenOut(net, std::vector<size_t>{0, 1});
      ASSERT_THAT(written, IsOk());
      ExpectSame(net, *written, inputs);
      const Network frozen = Frozen(net, inputs);
      const auto of_frozen = WrittenOut(frozen, std::vector<size_t>{0});
      ASSERT_THAT(of_frozen, IsOk());
      ExpectSame(frozen, *of_frozen, {inputs[0], inputs[2]});
    }
  }
}

}  // namespace
}  // namespace nodewise
