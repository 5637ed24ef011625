#include "contrib/regions/gelu_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "nodewise/interp/network_bounds.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

constexpr float kSqrt2 = 1.41421354F;
constexpr float kSqrtHalf = 0.707106769F;
constexpr float kTanhFactor = 0.797884583F;

// Writes a Gelu of x.
struct GeluBuilder : NetBuilder {
  ValueId Number(float value) {
    return Const("", MakeTensor<float>({}, {value}));
  }
  ValueId Make(const char* kind, ValueId a, ValueId b) {
    return Op(kind, {a, b})[0];
  }
  ValueId Add(ValueId a, ValueId b) { return Make("Add", a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Make("Mul", a, b); }
  ValueId Div(ValueId a, ValueId b) { return Make("Div", a, b); }
  // erf(x / sqrt(2)) + 1
  ValueId Erf(ValueId x, float divisor = kSqrt2) {
    return Add(Op("Erf", {Div(x, Number(divisor))})[0], Number(1));
  }
  ValueId Usual(ValueId x, float divisor = kSqrt2) {
    return Mul(Mul(x, Erf(x, divisor)), Number(0.5F));
  }
  ValueId UsualTanh(ValueId x) {
    const ValueId cube = Mul(Number(0.044715F), Make("Pow", x, Number(3)));
    const ValueId inner = Mul(Add(x, cube), Number(kTanhFactor));
    const ValueId sum = Add(Number(1), Op("Tanh", {inner})[0]);
    return Mul(Mul(sum, x), Number(0.5F));
  }
};

struct WrittenGelu {
  const char* name;
  std::function<ValueId(GeluBuilder&, ValueId x)> write;
};

const WrittenGelu kGelus[] = {
    {"half last",
     [](GeluBuilder& b, ValueId x) {
       return b.Mul(b.Mul(x, b.Erf(x)), b.Number(0.5F));
     }},
    {"half first",
     [](GeluBuilder& b, ValueId x) {
       return b.Mul(b.Mul(b.Number(0.5F), x), b.Erf(x));
     }},
    {"half of the sum",
     [](GeluBuilder& b, ValueId x) {
       return b.Mul(b.Mul(b.Erf(x), b.Number(0.5F)), x);
     }},
    {"divided by two",
     [](GeluBuilder& b, ValueId x) {
       return b.Div(b.Mul(b.Erf(x), x), b.Number(2));
     }},
    {"a factor in the erf, the one first",
     [](GeluBuilder& b, ValueId x) {
       const ValueId inner = b.Mul(b.Number(kSqrtHalf), x);
       const ValueId sum = b.Add(b.Number(1), b.Op("Erf", {inner})[0]);
       return b.Mul(b.Number(0.5F), b.Mul(x, sum));
     }},
    {"tanh with a power",
     [](GeluBuilder& b, ValueId x) {
       const ValueId cube =
           b.Mul(b.Number(0.044715F), b.Make("Pow", x, b.Number(3)));
       const ValueId inner = b.Mul(b.Add(x, cube), b.Number(kTanhFactor));
       const ValueId sum = b.Add(b.Number(1), b.Op("Tanh", {inner})[0]);
       return b.Mul(b.Mul(x, b.Number(0.5F)), sum);
     }},
    {"tanh with products",
     [](GeluBuilder& b, ValueId x) {
       const ValueId square = b.Mul(b.Number(0.044715F), b.Mul(x, x));
       const ValueId inner =
           b.Mul(b.Mul(b.Number(kTanhFactor), x), b.Add(b.Number(1), square));
       const ValueId sum = b.Add(b.Op("Tanh", {inner})[0], b.Number(1));
       return b.Mul(b.Number(0.5F), b.Mul(x, sum));
     }},
};

// Numbers of all sizes, most of them where a Gelu is bent.
NDArray ManyNumbers() {
  std::vector<float> numbers = {0, -0.0F, 1e37F, -1e37F, 1e-40F, -1e-40F};
  for (float x = -16; x < 16; x += 0.0078F) numbers.push_back(x);
  for (float x = 1e-30F; x < 1e30F; x *= 10) {
    numbers.push_back(x);
    numbers.push_back(-x);
  }
  return Floats(numbers);
}

struct OneNodeRun {
  NDArray output;
  KernelChoice choice;
};

OneNodeRun RunFused(const Network& net, const std::vector<NDArray>& inputs) {
  const auto library = BuiltInFunctions(AllOperators());
  const auto outputs = RunLowered(net, inputs, {}, library);
  EXPECT_THAT(outputs, IsOk());
  return {(*outputs)[0], library->choices().back()};
}

// By the bounds of the operations that the Gelu is written in.
void ExpectWithinBounds(const Network& net, const std::vector<NDArray>& inputs,
                        const NDArray& output) {
  const auto expected = InterpretCarryingBounds(net, inputs);
  ASSERT_THAT(expected, IsOk());
  const std::vector<float> right = ValuesOf((*expected)[0].tensor);
  const std::vector<float> found = ValuesOf(output);
  for (size_t i = 0; i < right.size(); ++i) {
    if (std::isnan(right[i]) && std::isnan(found[i])) continue;
    if (right[i] == found[i]) continue;
    EXPECT_LE(std::fabs(right[i] - found[i]), (*expected)[0].bounds.proved[i])
        << "element " << i << ": " << found[i] << ", expected " << right[i];
    if (testing::Test::HasFailure()) return;
  }
}

void ExpectInOneDnn(const KernelChoice& choice) {
  EXPECT_EQ(choice.kernel, "oneDNN");
  for (const OperationChoice& operation : choice.operations) {
    EXPECT_EQ(operation.kernel, "oneDNN")
        << operation.operation << ": " << operation.why_not;
  }
}

// A product with a bias, and a Gelu behind it.
void WriteBehindProduct(const WrittenGelu& gelu, int64_t rows, GeluBuilder* b) {
  const ValueId x = b->In("x", {rows, 8});
  std::vector<float> weights;
  for (int i = 0; i < 16; ++i) {
    weights.push_back(static_cast<float>(i % 5 - 2) / 4);
  }
  const ValueId w = b->Const("w", MakeTensor<float>({8, 2}, weights));
  const ValueId bias = b->Const("bias", Floats({0.5F, -0.25F}));
  const ValueId y = b->Add(b->Op("MatMul", {x, w})[0], bias);
  b->Out({gelu.write(*b, y)});
}

TEST(GeluPatternTest, EveryWayToWriteItIsOneActivationWithinItsBounds) {
  std::vector<float> numbers = ValuesOf(ManyNumbers());
  numbers.resize(numbers.size() / 8 * 8);
  const auto rows = static_cast<int64_t>(numbers.size() / 8);
  const NDArray x = MakeTensor<float>({rows, 8}, numbers);
  for (const WrittenGelu& gelu : kGelus) {
    SCOPED_TRACE(gelu.name);
    GeluBuilder b;
    WriteBehindProduct(gelu, rows, &b);
    const OneNodeRun run = RunFused(b.net, {x});
    ExpectInOneDnn(run.choice);
    EXPECT_EQ(run.choice.operations.size(), b.net.order().size());
    ExpectWithinBounds(b.net, {x}, run.output);
  }
}

TEST(GeluPatternTest, WithTanhItMayStandAlone) {
  const NDArray x = ManyNumbers();
  for (const WrittenGelu& gelu : kGelus) {
    SCOPED_TRACE(gelu.name);
    GeluBuilder b;
    // One operation in front, with which all of them are in one node.
    const ValueId in = b.Op("Neg", {b.In("x", {x.shape()[0]})})[0];
    b.Out({gelu.write(b, in)});
    const OneNodeRun run = RunFused(b.net, {x});
    ExpectWithinBounds(b.net, {x}, run.output);
    if (std::string_view(gelu.name).starts_with("tanh")) {
      ExpectInOneDnn(run.choice);
    }
  }
}

TEST(GeluPatternTest, WithTanhItMayBeTheFirst) {
  const NDArray x = ManyNumbers();
  GeluBuilder b;
  b.Out({b.UsualTanh(b.In("x", {x.shape()[0]}))});
  const OneNodeRun run = RunFused(b.net, {x});
  ExpectInOneDnn(run.choice);
  ExpectWithinBounds(b.net, {x}, run.output);
}

TEST(GeluPatternTest, WhatIsNotANumberIsWhatTheOperationsMakeOfIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  for (const float bad : {infinity, -infinity, largest, -largest,
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const WrittenGelu& gelu : kGelus) {
      SCOPED_TRACE(gelu.name);
      GeluBuilder b;
      const ValueId w = b.Const("w", MakeTensor<float>({1, 1}, {-1}));
      b.Out({gelu.write(b, b.Op("MatMul", {b.In("x", {2, 1}), w})[0])});
      const NDArray x = MakeTensor<float>({2, 1}, {1, bad});
      const float right = ValuesOf(Interpret(b.net, {x}).value()[0])[1];
      const float found = ValuesOf(RunFused(b.net, {x}).output)[1];
      EXPECT_TRUE(right == found || (std::isnan(right) && std::isnan(found)))
          << bad << ": is " << found << ", expected " << right;
    }
  }
}

TEST(GeluPatternTest, OtherNumbersAreComputedAsTheyAre) {
  GeluBuilder b;
  const ValueId w = b.Const("w", MakeTensor<float>({1, 1}, {2}));
  b.Out({b.Usual(b.Op("MatMul", {b.In("x", {3, 1}), w})[0], 1.5F)});
  const NDArray x = MakeTensor<float>({3, 1}, {-1, 0.5F, 2});
  const OneNodeRun run = RunFused(b.net, {x});
  EXPECT_EQ(ValuesOf(run.output), ValuesOf(Interpret(b.net, {x}).value()[0]));
  for (const OperationChoice& operation : run.choice.operations) {
    EXPECT_EQ(operation.kernel, "reference");
    EXPECT_THAT(operation.why_not, HasSubstr("with other numbers"));
  }
}

TEST(GeluPatternTest, ANumberThatIsSetAnewCounts) {
  GeluBuilder b;
  const ValueId w = b.Const("w", MakeTensor<float>({1, 1}, {1}));
  const ValueId x = b.Op("MatMul", {b.In("x", {1, 1}), w})[0];
  const ValueId half = b.Const("half", MakeTensor<float>({}, {0.5F}));
  b.Out({b.Mul(b.Mul(x, b.Erf(x)), half)});
  const auto library = BuiltInFunctions(AllOperators());
  const auto executor =
      ExecutorOf(Lower(b.net, "net").value(), library).value();
  ASSERT_THAT(executor->SetInput("x", *MakeTensor<float>({1, 1}, {3})), IsOk());
  std::vector<float> found;
  for (const float number : {0.5F, 1.0F, 0.5F}) {
    ASSERT_THAT(executor->SetInput("half", *MakeTensor<float>({}, {number})),
                IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    found.push_back(ValuesOf(*executor->GetOutput(0))[0]);
  }
  EXPECT_NEAR(found[1], 2 * found[0], 1e-6);
  EXPECT_EQ(found[2], found[0]);
  ExpectInOneDnn(library->choices()[0]);
}

bool IsFound(const GeluBuilder& b, ValueId x) {
  return GeluPattern::Find(b.net, x,
                           [&](ValueId value) {
                             return b.net.value(value).kind ==
                                    NetworkValue::Kind::kConstant;
                           })
      .has_value();
}

TEST(GeluPatternTest, WhatOthersReadIsNotPartOfIt) {
  GeluBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId sum = b.Erf(x);
  const ValueId y = b.Mul(b.Mul(x, sum), b.Number(0.5F));
  b.Out({y});
  EXPECT_TRUE(IsFound(b, x));
  b.Out({y, sum});
  EXPECT_FALSE(IsFound(b, x)) << "an output would not be made";
  b.Out({y, b.Op("Neg", {sum})[0]});
  EXPECT_FALSE(IsFound(b, x)) << "another operation reads it";
}

TEST(GeluPatternTest, OtherFormulasAreNone) {
  GeluBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId other = b.In("other", {2});
  const ValueId half = b.Number(0.5F);
  const ValueId tanh = b.Op("Tanh", {x})[0];
  // A sigmoid, a swish, a Gelu of one value times another value, a square.
  b.Out({b.Mul(b.Add(tanh, b.Number(1)), half)});
  b.Out({b.Mul(b.Mul(x, b.Add(b.Op("Tanh", {x})[0], b.Number(1))), half)});
  b.Out({b.Mul(b.Mul(other, b.Erf(x)), half)});
  b.Out({b.Mul(b.Mul(x, x), half)});
  EXPECT_FALSE(IsFound(b, x));
  EXPECT_FALSE(IsFound(b, other));
}

TEST(GeluPatternTest, NumbersAreThoseOfTheType) {
  GeluBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out({b.Usual(x)});
  const auto gelu = GeluPattern::Find(b.net, x, [&](ValueId value) {
    return b.net.value(value).kind == NetworkValue::Kind::kConstant;
  });
  ASSERT_TRUE(gelu.has_value());
  ASSERT_EQ(gelu->numbers().size(), 3u);
  constexpr double kSpacing = std::numeric_limits<float>::epsilon();
  std::vector<double> numbers;
  for (const ValueId number : gelu->numbers()) {
    numbers.push_back(ValuesOf(b.net.value(number).data)[0]);
  }
  EXPECT_TRUE(gelu->Holds(numbers, kSpacing));
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (const double factor : {1 + 4 * kSpacing, 0.0, -1.0}) {
      std::vector<double> others = numbers;
      others[i] *= factor;
      EXPECT_FALSE(gelu->Holds(others, kSpacing)) << i << ", " << factor;
    }
  }
}

}  // namespace
}  // namespace nodewise
