#include "nodewise/locate/cause.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/tensors.h"

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
                      const NDArray& found,
                      const std::vector<Dequantized>& dequantized = {}) {
  const auto expected = Interpret(region, inputs).value();
  const TensorKey key{"node", 0, TensorRole::kOutput, "reference"};
  TensorItem item{key};
  item.tensor = expected[0].tensor();
  const TensorComparison worst = CompareTensors(item, *found).value();
  const std::vector<NDArray> made = {found};
  const auto cause = CauseOf(
      {region, inputs, expected, made, 0, worst, dequantized}, AllOperators());
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

TEST(CauseTest, WeightsThatAreRoundedToAShorterTypeAreTold) {
  const Network region = Product();
  const std::vector<NDArray> inputs = {Wave({8, 64}, 0.7F),
                                       Wave({64, 16}, 1.3F)};
  const auto made = Interpret(region, {inputs[0], ShortenedTo8Bits(inputs[1])});
  EXPECT_EQ(CauseWith(region, inputs, (*made)[0]),
            "second inputs are rounded to bfloat16");
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

// 8-bit numbers of all sizes, in no order.
template <typename T>
NDArray Bytes(const std::vector<int64_t>& shape, DLDataType dtype,
              int64_t step) {
  NDArray tensor = NDArray::Empty(shape, dtype, kCpu).value();
  for (int64_t i = 0; i < static_cast<int64_t>(tensor.bytes()); ++i) {
    tensor.As<T>()[i] = static_cast<T>(i * step + i / 7 * 11);
  }
  return tensor;
}

// What two products add up to in 16 bits.
int32_t Pair(int32_t a, int32_t b, int32_t c, int32_t d) {
  return std::clamp(a * b + c * d, -32768, 32767);
}

constexpr const char* kSaturates = "8-bit products saturate on this processor";

// The sums of a product of 16 x 64 and 64 x 16.
std::vector<int32_t> SaturatedSums(const NDArray& left, const NDArray& right) {
  std::vector<int32_t> sums;
  for (int64_t m = 0; m < 16; ++m) {
    for (int64_t n = 0; n < 16; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < 64; k += 2) {
        sum +=
            Pair(left.As<uint8_t>()[m * 64 + k], right.As<int8_t>()[k * 16 + n],
                 left.As<uint8_t>()[m * 64 + k + 1],
                 right.As<int8_t>()[(k + 1) * 16 + n]);
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

TEST(CauseTest, AProductOfBytesThatSaturatesIsTold) {
  NetBuilder b;
  const ValueId x = b.In("x", {16, 64}, kUint8);
  const ValueId w = b.In("w", {64, 16}, kInt8);
  b.Out({b.Op("MatMulInteger", {x, w}, {}, {"y"})[0]});
  const NDArray left = Bytes<uint8_t>({16, 64}, kUint8, 37);
  const NDArray right = Bytes<int8_t>({64, 16}, kInt8, 29);
  const NDArray made =
      MakeTensor<int32_t>({16, 16}, SaturatedSums(left, right), kInt32);
  EXPECT_EQ(CauseWith(b.net, {left, right}, made), kSaturates);
}

// A runtime makes one product of integers of it, though what is judged reads
// floats that have been handed out.
TEST(CauseTest, AProductOfWhatAnotherNodeDequantizedSaturates) {
  const NDArray left = Bytes<uint8_t>({16, 64}, kUint8, 37);
  const NDArray right = Bytes<int8_t>({64, 16}, kInt8, 29);
  const auto dequantized = [](const NDArray& bytes) {
    NetBuilder b;
    const auto shape = bytes.shape();
    const ValueId x = b.In("x", {shape.begin(), shape.end()}, bytes.dtype());
    const ValueId scale = b.Const("s", Floats({0.5F}));
    b.Out({b.Op("DequantizeLinear", {x, scale})[0]});
    return Interpret(b.net, {bytes}).value()[0];
  };
  NetBuilder b;
  const ValueId x = b.In("x", {16, 64});
  b.Out({b.Op("MatMul", {x, b.In("w", {64, 16})}, {}, {"y"})[0]});
  std::vector<float> numbers;
  for (const int32_t sum : SaturatedSums(left, right)) {
    numbers.push_back(0.25F * static_cast<float>(sum));
  }
  const std::vector<NDArray> inputs = {dequantized(left), dequantized(right)};
  const NDArray made = MakeTensor<float>({16, 16}, numbers);
  EXPECT_NE(CauseWith(b.net, inputs, made), kSaturates);
  EXPECT_EQ(
      CauseWith(b.net, inputs, made,
                {{left, Floats({0.5F}), {}}, {right, Floats({0.5F}), {}}}),
      kSaturates);
}

// A convolution of 3 x 3 over 6 x 6 places with 4 channels of two images,
// padded by the zero point, whose operands and result are quantized.
TEST(CauseTest, AQuantizedConvolutionThatSaturatesIsTold) {
  constexpr int kZero = 3;
  NetBuilder b;
  const auto dequantized = [&](const char* name, ValueId id, float scale,
                               const NDArray& zero) {
    const ValueId s = b.Const(std::string(name) + "_s", Floats({scale}));
    const ValueId z = b.Const(std::string(name) + "_z", zero);
    return b.Op("DequantizeLinear", {id, s, z}, {}, {name})[0];
  };
  const NDArray zero = MakeTensor<uint8_t>({1}, {kZero}, kUint8);
  const ValueId x =
      dequantized("x", b.In("xq", {2, 4, 6, 6}, kUint8), 0.5F, zero);
  const ValueId w = dequantized("w", b.In("wq", {5, 4, 3, 3}, kInt8), 0.25F,
                                MakeTensor<int8_t>({1}, {0}, kInt8));
  b.Out({b.Op("Conv", {x, w}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}},
              {"y"})[0]});
  const NDArray left = Bytes<uint8_t>({2, 4, 6, 6}, kUint8, 37);
  const NDArray right = Bytes<int8_t>({5, 4, 3, 3}, kInt8, 29);
  int64_t image = 0;
  const auto left_at = [&](int64_t c, int64_t i, int64_t j) -> int32_t {
    const bool is_inside = i >= 0 && i < 6 && j >= 0 && j < 6;
    return is_inside ? left.As<uint8_t>()[((image * 4 + c) * 6 + i) * 6 + j]
                     : kZero;
  };
  NDArray made = NDArray::Empty({2, 5, 6, 6}, kFloat32, kCpu).value();
  for (int64_t result = 0; result < 10; ++result) {
    image = result / 5;
    const int64_t n = result % 5;
    for (int64_t at = 0; at < 36; ++at) {
      int32_t sum = 0;
      for (int64_t t = 0; t < 9; ++t) {
        const int64_t i = at / 6 + t / 3 - 1;
        const int64_t j = at % 6 + t % 3 - 1;
        int32_t weights[4];
        for (int64_t c = 0; c < 4; ++c) {
          weights[c] = right.As<int8_t>()[(n * 4 + c) * 9 + t];
          sum -= kZero * weights[c];
        }
        sum += Pair(left_at(0, i, j), weights[0], left_at(1, i, j), weights[1]);
        sum += Pair(left_at(2, i, j), weights[2], left_at(3, i, j), weights[3]);
      }
      made.As<float>()[result * 36 + at] = 0.125F * static_cast<float>(sum);
    }
  }
  EXPECT_EQ(CauseWith(b.net, {left, right}, made), kSaturates);
}

TEST(CauseTest, AProductOfBytesThatIsWrongOtherwiseDoesNotSaturate) {
  NetBuilder b;
  const ValueId x = b.In("x", {16, 64}, kUint8);
  const ValueId w = b.In("w", {64, 16}, kInt8);
  b.Out({b.Op("MatMulInteger", {x, w}, {}, {"y"})[0]});
  const std::vector<NDArray> inputs = {Bytes<uint8_t>({16, 64}, kUint8, 37),
                                       Bytes<int8_t>({64, 16}, kInt8, 29)};
  NDArray made = (*Interpret(b.net, inputs))[0].CopyToHost().value();
  for (int64_t i = 0; i < 256; ++i) made.As<int32_t>()[i] += i % 5 * 1000;
  EXPECT_NE(CauseWith(b.net, inputs, made), kSaturates);
}

}  // namespace
}  // namespace nodewise
