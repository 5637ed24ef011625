#include "nodewise/locate/cause.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

NDArray Wave(const std::vector<int64_t>& shape, float step) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  const auto count = static_cast<size_t>(tensor.bytes() / sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    tensor.As<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  }
  return tensor;
}

// Cut off behind 8 significant bits: bfloat16, but for how halves are rounded.
NDArray ShortenedTo8Bits(const NDArray& tensor) {
  NDArray copy = tensor.CopyToHost().value();
  const auto count = static_cast<size_t>(copy.bytes() / sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<uint32_t>(copy.As<float>()[i]) + 0x8000;
    copy.As<float>()[i] = std::bit_cast<float>(word & 0xffff0000);
  }
  return copy;
}

std::string CauseWith(const Network& region, std::vector<NDArray> inputs,
                      const NDArray& found) {
  const auto expected = Interpret(region, inputs).value();
  const TensorKey key{"node", 0, TensorRole::kOutput, "reference"};
  TensorItem item{key};
  item.tensor = expected[0].tensor();
  const TensorComparison worst = CompareTensors(item, *found).value();
  const std::vector<NDArray> made = {found};
  const auto cause =
      CauseOf({region, inputs, expected, made, 0, worst}, AllOperators());
  return cause.has_value() ? cause->words : "";
}

Network Product() {
  NetBuilder b;
  const ValueId x = b.In("x", {8, 64});
  b.Out({b.Op("MatMul", {x, b.In("w", {64, 16})}, {}, {"y"})[0]});
  return b.net;
}

TEST(CauseTest, InputsThatAreRoundedToAShorterTypeAreTold) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  const auto made = Interpret(
      region, {ShortenedTo8Bits(inputs[0]), ShortenedTo8Bits(inputs[1])});
  EXPECT_EQ(CauseWith(region, inputs, (*made)[0]),
            "inputs are rounded to bfloat16");
}

TEST(CauseTest, ResultsThatAreRoundedToAShorterTypeAreTold) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  const auto made = Interpret(region, inputs);
  EXPECT_EQ(CauseWith(region, inputs, ShortenedTo8Bits((*made)[0])),
            "results are rounded to bfloat16");
}

TEST(CauseTest, InputsAndResultsThatAreRoundedAreToldAsBoth) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  const auto made = Interpret(
      region, {ShortenedTo8Bits(inputs[0]), ShortenedTo8Bits(inputs[1])});
  EXPECT_EQ(CauseWith(region, inputs, ShortenedTo8Bits((*made)[0])),
            "inputs and results are rounded to bfloat16");
}

TEST(CauseTest, AChangedAttributeIsTold) {
  const auto leaky = [](float alpha) {
    NetBuilder b;
    b.Out({b.Op("LeakyRelu", {b.In("x", {64})}, {{"alpha", alpha}}, {"y"})[0]});
    return b.net;
  };
  const std::vector<NDArray> inputs = {Wave({64}, 0.7F)};
  const auto made = Interpret(leaky(0.2F), inputs);
  EXPECT_EQ(CauseWith(leaky(0.01F), inputs, (*made)[0]),
            "numbers fit one change: alpha 0.2 instead of 0.01");
}

TEST(CauseTest, NothingIsToldWhereNothingFits) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  EXPECT_EQ(CauseWith(region, inputs, Wave({8, 16}, 2.9F)), "");
}

TEST(CauseTest, AnInfinityOfFiniteInputsIsTold) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  NDArray made = (*Interpret(region, inputs))[0].CopyToHost().value();
  made.As<float>()[5] = INFINITY;
  EXPECT_EQ(CauseWith(region, inputs, made), "finite inputs become infinity");
}

}  // namespace
}  // namespace nodewise
