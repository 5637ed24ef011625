#include "contrib/regions/half_floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nodewise/interp/network_bounds.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr DLDataType kHalfTypes[] = {kFloat16, kBfloat16};

NDArray HalvesOf(DLDataType type, const std::vector<int64_t>& shape,
                 const std::vector<float>& values) {
  const NDArray wide = MakeTensor<float>(shape, values);
  const NDArray half = NDArray::Empty(shape, type, kCpu).value();
  Narrow(wide, half);
  return half;
}
NDArray RandomHalves(DLDataType type, const std::string& stream,
                     const std::vector<int64_t>& shape) {
  RandomSource source(1, stream);
  const NDArray wide = RandomTensor(source, shape, kFloat32).value();
  const NDArray half = NDArray::Empty(shape, type, kCpu).value();
  Narrow(wide, half);
  return half;
}

TEST(HalfFloatsTest, EveryNumberComesBack) {
  std::vector<int64_t> shape = {65536};
  for (const DLDataType type : kHalfTypes) {
    const NDArray half = NDArray::Empty(shape, type, kCpu).value();
    for (int i = 0; i < 65536; ++i) {
      half.As<uint16_t>()[i] = static_cast<uint16_t>(i);
    }
    const NDArray wide = WideCopy(half).value();
    const NDArray back = NDArray::Empty(shape, type, kCpu).value();
    Narrow(wide, back);
    for (int i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float right =
          type == kFloat16 ? HalfToFloat(bits) : BfloatToFloat(bits);
      const float found = wide.As<float>()[i];
      if (std::isnan(right)) {
        EXPECT_TRUE(std::isnan(found)) << i;
        continue;
      }
      ASSERT_EQ(found, right) << i;
      ASSERT_EQ(back.As<uint16_t>()[i], bits) << i;
    }
  }
}

TEST(HalfFloatsTest, RoundsAsTheElementsDo) {
  RandomSource source(1, "bits");
  std::vector<float> values = {65519.996F,
                               65520,
                               1e-8F,
                               2.98e-8F,
                               2.9802322e-8F,
                               3.4e38F,
                               std::numeric_limits<float>::infinity()};
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(std::ldexp(static_cast<float>(source.Symmetric()),
                                static_cast<int>(source.Between(-28, 17))));
  }
  const auto n = static_cast<int64_t>(values.size());
  for (const DLDataType type : kHalfTypes) {
    const NDArray half = HalvesOf(type, {n}, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(half.As<uint16_t>()[i], type == kFloat16
                                            ? FloatToHalf(values[i])
                                            : FloatToBfloat(values[i]))
          << values[i];
    }
  }
}

TEST(HalfFloatsTest, ANaNIsSeenAndStaysOne) {
  for (const DLDataType type : kHalfTypes) {
    std::vector<float> values(19, std::numeric_limits<float>::infinity());
    EXPECT_FALSE(HasNaN(HalvesOf(type, {19}, values)));
    for (const size_t place : {0, 9, 18}) {
      std::vector<float> bad = values;
      bad[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(HasNaN(HalvesOf(type, {19}, bad))) << place;
    }
  }
}

struct HalfRun {
  std::vector<NDArray> outputs;
  std::vector<OperationChoice> operations;
};

HalfRun RunHalf(const Network& net, const std::vector<NDArray>& inputs) {
  const auto library = BuiltInFunctions(AllOperators());
  auto outputs = RunLowered(net, inputs, {}, library);
  EXPECT_THAT(outputs, IsOk());
  HalfRun run{*std::move(outputs), {}};
  for (const KernelChoice& choice : library->choices()) {
    run.operations.insert(run.operations.end(), choice.operations.begin(),
                          choice.operations.end());
  }
  return run;
}

void ExpectConverted(const HalfRun& run) {
  for (const OperationChoice& operation : run.operations) {
    EXPECT_EQ(operation.kernel, "oneDNN")
        << operation.operation << ": " << operation.why_not;
    EXPECT_THAT(operation.remark, HasSubstr("computed in float32"));
  }
}

void ExpectInBounds(const Network& net, const std::vector<NDArray>& inputs,
                    const NDArray& found) {
  const auto expected = InterpretCarryingBounds(net, inputs);
  ASSERT_THAT(expected, IsOk());
  ASSERT_EQ(found.dtype().bits, 16);
  const std::vector<double> right = ToDoubles((*expected)[0].tensor);
  const std::vector<double> given = ToDoubles(found);
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_LE(std::fabs(right[i] - given[i]), (*expected)[0].bounds.proved[i])
        << "element " << i << ": " << given[i] << ", expected " << right[i];
  }
}

// A convolution, and what is fused behind it.
Network ConvNet(DLDataType type, bool residual) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 16, 9, 9}, type);
  const ValueId w = b.Const("w", RandomHalves(type, "w", {16, 16, 3, 3}));
  const ValueId bias = b.Const("b", RandomHalves(type, "b", {16}));
  ValueId y = b.Op("Conv", {x, w, bias},
                   {{"pads", AttrValue(std::vector<int64_t>{1, 1, 1, 1})}})[0];
  if (residual) y = b.Op("Add", {y, x})[0];
  b.Out(b.Op("Relu", {y}));
  return b.net;
}

TEST(HalfFloatsTest, AConvolutionIsFusedAndKeepsItsBounds) {
  for (const DLDataType type : kHalfTypes) {
    for (const bool residual : {false, true}) {
      const Network net = ConvNet(type, residual);
      const std::vector<NDArray> x = {RandomHalves(type, "x", {1, 16, 9, 9})};
      const HalfRun run = RunHalf(net, x);
      ExpectConverted(run);
      ExpectInBounds(net, x, run.outputs[0]);
    }
  }
}

// Exact operations, whose results are not rounded in between.
TEST(HalfFloatsTest, ChainsOfSumsAndProductsKeepTheirBounds) {
  for (const DLDataType type : kHalfTypes) {
    NetBuilder b;
    const ValueId x = b.In("x", {6, 40}, type);
    const ValueId y = b.In("y", {6, 40}, type);
    const ValueId sum = b.Op("Add", {b.Op("Mul", {x, y})[0], y})[0];
    b.Out(b.Op("Mul", {b.Op("Sub", {sum, x})[0], y}));
    const std::vector<NDArray> inputs = {RandomHalves(type, "x", {6, 40}),
                                         RandomHalves(type, "y", {6, 40})};
    const HalfRun run = RunHalf(b.net, inputs);
    ExpectConverted(run);
    ExpectInBounds(b.net, inputs, run.outputs[0]);
  }
}

TEST(HalfFloatsTest, AGeluIsRecognisedByTheNumbersOfTheType) {
  for (const DLDataType type : kHalfTypes) {
    NetBuilder b;
    const auto number = [&](float value) {
      return b.Const("", HalvesOf(type, {}, {value}));
    };
    const ValueId w = b.Const("w", RandomHalves(type, "w", {32, 24}));
    const ValueId y = b.Op("MatMul", {b.In("x", {8, 32}, type), w})[0];
    const ValueId erf =
        b.Op("Erf", {b.Op("Div", {y, number(1.41421354F)})[0]})[0];
    const ValueId sum = b.Op("Add", {erf, number(1)})[0];
    b.Out(b.Op("Mul", {b.Op("Mul", {y, sum})[0], number(0.5F)}));
    const std::vector<NDArray> x = {RandomHalves(type, "x", {8, 32})};
    const HalfRun run = RunHalf(b.net, x);
    ExpectConverted(run);
    ExpectInBounds(b.net, x, run.outputs[0]);
  }
}

// 300 * 300 is more than float16 has; float32 would hide it.
TEST(HalfFloatsTest, AnOverflowInsideOfACallIsOne) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2}, kFloat16);
  const ValueId w = b.Const("w", HalvesOf(kFloat16, {2, 2}, {300, 0, 0, 1}));
  const ValueId scale = b.Const("scale", HalvesOf(kFloat16, {2}, {0.125F, 1}));
  b.Out(b.Op("Mul", {b.Op("MatMul", {x, w})[0], scale}));
  const std::vector<NDArray> given = {HalvesOf(kFloat16, {1, 2}, {300, 5})};
  const HalfRun run = RunHalf(b.net, given);
  ExpectConverted(run);
  EXPECT_THAT(ToDoubles(run.outputs[0]), testing::ElementsAre(HUGE_VAL, 5));
}

TEST(HalfFloatsTest, ANaNThatTheCallMakesIsThatOfTheOperations) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1}, kFloat16);
  const ValueId w = b.Const("w", HalvesOf(kFloat16, {1, 1}, {300}));
  const ValueId y = b.Op("MatMul", {x, w})[0];
  b.Out(b.Op("Mul", {y, b.Const("", HalvesOf(kFloat16, {1}, {0}))}));
  const HalfRun run = RunHalf(b.net, {HalvesOf(kFloat16, {1, 1}, {300})});
  EXPECT_TRUE(std::isnan(ToDoubles(run.outputs[0])[0]));
  EXPECT_THAT(run.operations[0].remark, HasSubstr("2 runs computed by the"));
}

TEST(HalfFloatsTest, WeightsThatAreSetAnewAreConvertedAnew) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1}, kFloat16);
  const ValueId w = b.Const("w", HalvesOf(kFloat16, {1, 1}, {2}));
  b.Out(b.Op("MatMul", {x, w}));
  const auto executor =
      ExecutorOf(Lower(b.net, "net").value(), BuiltInFunctions(AllOperators()))
          .value();
  ASSERT_THAT(executor->SetInput("x", *HalvesOf(kFloat16, {1, 1}, {3})),
              IsOk());
  for (const float factor : {2.0F, 5.0F}) {
    ASSERT_THAT(executor->SetInput("w", *HalvesOf(kFloat16, {1, 1}, {factor})),
                IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_EQ(ToDoubles(executor->GetOutput(0).value())[0], 3 * factor);
  }
}

TEST(HalfFloatsTest, FloatsOfSeveralTypesAreTheReferences) {
  NetBuilder b;
  const ValueId x = b.In("x", {2}, kFloat16);
  const ValueId y = b.Op("Neg", {x})[0];
  b.Out(b.Op("Cast", {y}, {{"to", AttrValue(int64_t{1})}}));
  const HalfRun run = RunHalf(b.net, {HalvesOf(kFloat16, {2}, {1, -2})});
  EXPECT_THAT(ToDoubles(run.outputs[0]), testing::ElementsAre(-1, 2));
  ASSERT_EQ(run.operations.size(), 2u);
  EXPECT_EQ(run.operations[0].kernel, "oneDNN");
  EXPECT_THAT(run.operations[1].why_not, HasSubstr("floats of several types"));
}

}  // namespace
}  // namespace nodewise
