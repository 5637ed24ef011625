#include "contrib/align/layout_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using Sizes = std::vector<int64_t>;

// 1, 2, 3, ...
NDArray Counted(const Sizes& shape) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  std::iota(tensor.As<float>(), tensor.As<float>() + CountOf(tensor), 1.0F);
  return tensor;
}

// Puts the tensor into the layout, and then back into its own.
std::vector<NDArray> ThereAndBack(const Layout& layout, const Sizes& source,
                                  const Sizes& compiled) {
  Network network("layouts");
  const ValueId x =
      network
          .AddInput("x",
                    TensorType(kFloat32, Shape(source.begin(), source.end())))
          .value();
  const ValueId there =
      AddLayout(layout, x, compiled, AllOperators(), &network).value();
  const ValueId back =
      AddLayoutUndone(layout, there, source, AllOperators(), &network).value();
  EXPECT_THAT(network.SetOutputs({there, back}), IsOk());
  return Interpret(network, {Counted(source)}).value();
}

TEST(LayoutOperationsTest, OperationsDoWhatEveryLayoutSays) {
  const std::vector<std::pair<Sizes, Sizes>> shapes = {
      {{2, 3}, {3, 2}},
      {{2, 6, 1}, {12}},
      {{1, 16, 3, 5}, {1, 2, 3, 5, 8}},
      {{1, 12, 3, 3}, {1, 2, 3, 3, 8}},
      {{6, 5, 3, 3}, {2, 2, 3, 3, 3, 4}},
      {{4, 1}, {2, 4, 3}},
      {{}, {1}},
  };
  for (const auto& shape : shapes) {
    const Sizes& source = shape.first;
    const Sizes& compiled = shape.second;
    size_t tried = 0;
    VisitLayouts(source, compiled, [&](const Layout& layout) {
      SCOPED_TRACE(layout.text);
      const std::vector<NDArray> made = ThereAndBack(layout, source, compiled);
      std::vector<float> expected;
      for (const int64_t place : PlacesOf(layout)) {
        const bool is_padding = place == kPaddingPlace;
        expected.push_back(is_padding ? 0.0F : static_cast<float>(place + 1));
      }
      EXPECT_EQ(ValuesOf(made[0]), expected);
      EXPECT_EQ(ValuesOf(made[1]), ValuesOf(Counted(source)));
      return ++tried < 50;
    });
    EXPECT_GT(tried, 0U);
  }
}

TEST(LayoutOperationsTest, ALayoutThatSkipsElementsIsRefused) {
  Network network("layouts");
  const ValueId x =
      network.AddInput("x", TensorType(kFloat32, Shape{4})).value();
  Layout layout;
  layout.loops = {{2, 2}};
  EXPECT_THAT(AddLayout(layout, x, {2}, AllOperators(), &network),
              FailsWith(absl::StatusCode::kUnimplemented,
                        testing::HasSubstr("layout")));
}

}  // namespace
}  // namespace nodewise
