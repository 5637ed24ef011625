#include "nodewise/autotest/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

class GeneratorTest : public testing::Test {
 protected:
  GeneratedValue ValueOf(const generator& from) {
    return from.value(draw_).value();
  }
  absl::Status ErrorOf(const generator& from) {
    return from.value(draw_).status();
  }
  // The value in another case.
  GeneratedValue Anew(const generator& from, uint64_t seed) {
    Choices choices{RandomSource(seed)};
    CaseDraw draw(&choices);
    return from.value(draw).value();
  }

  Choices choices_{RandomSource(7)};
  CaseDraw draw_{&choices_};
};

// OF-24
TEST_F(GeneratorTest, RandomIsHalfOpen) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seen.insert(*Anew(random(1, 4), seed).AsInt());
  }
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3}));
}

// OF-16, OF-17, OF-33
TEST_F(GeneratorTest, OneCaseHasOneValue) {
  const generator x = random(0, 1'000'000'000);
  EXPECT_EQ(*ValueOf(x).AsInt(), *ValueOf(x).AsInt());
}

// OF-16, OF-17, OF-33
TEST_F(GeneratorTest, ANewCaseDrawsAnew) {
  const generator x = random(0, 1'000'000'000);
  EXPECT_NE(*Anew(x, 1).AsInt(), *Anew(x, 2).AsInt());
}

// OF-19
TEST_F(GeneratorTest, GeneratorsCombine) {
  const generator m = random(3, 9);
  const generator doubled = m * 2 + 1;
  EXPECT_EQ(*ValueOf(doubled).AsInt(), *ValueOf(m).AsInt() * 2 + 1);
}

// OF-19, OFc-04
TEST_F(GeneratorTest, ArithmeticIsThatOfNumbers) {
  EXPECT_EQ(ToString(ValueOf(generator(7) + 2)), "9");
  EXPECT_EQ(ToString(ValueOf(generator(7) - 2)), "5");
  EXPECT_EQ(ToString(ValueOf(generator(7) * 2)), "14");
  EXPECT_EQ(ToString(ValueOf(generator(7) / 2)), "3");
  EXPECT_EQ(ToString(ValueOf(generator(7) % 4)), "3");
  EXPECT_EQ(ToString(ValueOf(generator(7) / 2.0)), "3.5");
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seen.insert(*Anew(random(1, 3) | 7, seed).AsInt());
  }
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 7}));
}

// OF-22, OF-29
TEST_F(GeneratorTest, ConstantsStayWhatTheyAre) {
  EXPECT_EQ(ToString(ValueOf(3)), "3");
  EXPECT_EQ(ToString(ValueOf(1.5)), "1.5");
  EXPECT_EQ(ToString(ValueOf(true)), "true");
  EXPECT_EQ(ToString(ValueOf("SAME_UPPER")), "SAME_UPPER");
  EXPECT_EQ(ToString(ValueOf(kFloat32)), "float32");
  EXPECT_NE(ValueOf(constant({kCpu})).As<DLDevice>(), nullptr);
  const NDArray tensor = NDArray::Empty({2, 3}, kInt64, kCpu).value();
  EXPECT_EQ(ValueOf(constant({tensor})).As<NDArray>()->data(), tensor.data());
  EXPECT_EQ(*ValueOf(constant("zeros")).As<std::string>(), "zeros");
}

// OF-22, OF-30
TEST_F(GeneratorTest, TuplesHoldWhatTheyAreMadeOf) {
  const generator three = tuple({1, random(2, 3), nothing()});
  EXPECT_EQ(ToString(ValueOf(three)), "[1, 2, nothing]");
  const GeneratedValue drawn = ValueOf(tuple_of(random(5, 6), 1, 4));
  ASSERT_THAT(*drawn.As<GeneratedTuple>(), SizeIs(5));
  for (const GeneratedValue& each : *drawn.As<GeneratedTuple>()) {
    EXPECT_THAT(*each.AsInt(), AllOf(Ge(1), Le(3)));
  }
}

// OF-31
TEST_F(GeneratorTest, BothBoolsCome) {
  std::set<bool> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seen.insert(*Anew(random_bool(), seed).As<bool>());
  }
  EXPECT_THAT(seen, SizeIs(2));
}

// OF-32, OFc-06
TEST_F(GeneratorTest, TypesAreDrawnFromAList) {
  TensorOptions options;
  options.dtype = random_dtype({kFloat32, kInt64});
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seen.insert(ToString(Anew(random_tensor({2}, options), seed)));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"float32[2]", "int64[2]"}));
}

// OF-25
TEST_F(GeneratorTest, RandomMakesWholeNumbersAndBools) {
  const generator whole = random(1.0, 4.0);
  whole.to(Annotation::kInt);
  EXPECT_NE(ValueOf(whole).As<int64_t>(), nullptr);
  const generator either = random(1, 4);
  either.to(Annotation::kBool);
  EXPECT_NE(ValueOf(either).As<bool>(), nullptr);
}

// OF-20, OF-25
TEST_F(GeneratorTest, RandomMakesTheTypeThatIsWanted) {
  const generator x = random(1, 4);
  x.to(Annotation::kFloat);
  const GeneratedValue value = ValueOf(x);
  ASSERT_NE(value.As<double>(), nullptr);
  EXPECT_GE(*value.As<double>(), 1);
  EXPECT_LT(*value.As<double>(), 4);
  EXPECT_NE(ValueOf(random(1, 4).to<float>()).As<double>(), nullptr);
  EXPECT_NE(ValueOf(random(1, 4).to<bool>()).As<bool>(), nullptr);
}

// OF-20, OF-26
TEST_F(GeneratorTest, DeviceIsADeviceForAnyAnnotation) {
  const generator device = random_device();
  device.to(Annotation::kInt);
  EXPECT_NE(ValueOf(device).As<DLDevice>(), nullptr);
}

// OF-18, OF-28, OF-30
TEST_F(GeneratorTest, SizeCountsTheValues) {
  EXPECT_EQ(random(1, 4).size(), 3);
  EXPECT_EQ(oneof({random(1, 4), random_bool(), nothing()}).size(), 6);
  EXPECT_EQ(tuple({random(0, 3), random_bool()}).size(), 6);
  EXPECT_TRUE(std::isinf(random_tensor({2}).size()));
}

// OF-23, OF-27, OFc-04
TEST_F(GeneratorTest, NothingComesInAThirdOfTheCases) {
  int without = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    without += Anew(random_or_nothing(1, 4), seed).is_nothing() ? 1 : 0;
  }
  EXPECT_NEAR(without, 1000, 150);
}

// OF-28, OFc-04
TEST_F(GeneratorTest, OddsDecideHowOftenOneComes) {
  int first = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    first += *Anew(oneof({1, 2}, {0.1, 0.9}), seed).AsInt() == 1 ? 1 : 0;
  }
  EXPECT_NEAR(first, 300, 100);
}

// OF-11, OF-15, OF-22, OF-32, OF-33
TEST_F(GeneratorTest, TensorsShareASize) {
  const generator k = random(1, 100);
  const GeneratedValue x = ValueOf(random_tensor({3, k}));
  const GeneratedValue y = ValueOf(random_tensor({k, 2}));
  EXPECT_EQ(x.As<NDArray>()->shape()[1], y.As<NDArray>()->shape()[0]);
}

TEST_F(GeneratorTest, SidesCanBeGivenByTheirNumbers) {
  const generator k = random(7, 100);
  const GeneratedValue x =
      ValueOf(random_tensor(TensorSides{.ndim = 3, .dim1 = k, .dim4 = 9}));
  EXPECT_THAT(x.As<NDArray>()->shape(),
              ElementsAre(Le(5), *ValueOf(k).AsInt(), Le(5)));
  const GeneratedValue y =
      ValueOf(random_tensor(TensorSides{.ndim = 1, .dim0 = k + 1}));
  EXPECT_THAT(y.As<NDArray>()->shape(), ElementsAre(*ValueOf(k).AsInt() + 1));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const GeneratedValue z = Anew(random_tensor(TensorSides{}), seed);
    EXPECT_THAT(z.As<NDArray>()->shape().size(), AllOf(Ge(1), Le(5)));
  }
}

// OFc-05
TEST_F(GeneratorTest, TensorsHaveSmallNumbersUnlessTheyAreToldOthers) {
  TensorOptions from_zero_to_one;
  from_zero_to_one.domain = InputDomain::Within(0, 1);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const GeneratedValue x = Anew(random_tensor_of_rank(3), seed);
    ASSERT_THAT(x.As<NDArray>()->shape(), SizeIs(3));
    EXPECT_THAT(x.As<NDArray>()->shape(), Each(AllOf(Ge(1), Le(5))));
    EXPECT_THAT(ToDoubles(*x.As<NDArray>()), Each(AllOf(Ge(-4), Le(4))));
    const GeneratedValue y = Anew(random_tensor({8}, from_zero_to_one), seed);
    EXPECT_THAT(ToDoubles(*y.As<NDArray>()), Each(AllOf(Ge(0), Le(1))));
  }
}

// OF-24, OF-28
TEST_F(GeneratorTest, AnEmptySpaceIsAnError) {
  EXPECT_THAT(ErrorOf(random(4, 4)),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("random(4, 4): is empty")));
  EXPECT_THAT(ErrorOf(random(5, 2)),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected an upper end above 5")));
  EXPECT_THAT(ErrorOf(oneof({})), FailsWith(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("oneof: is empty")));
  EXPECT_THAT(ErrorOf(random_device({})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("random_device: is empty")));
}

// OF-19
TEST_F(GeneratorTest, AResultThatThereIsNotIsAnError) {
  EXPECT_THAT(ErrorOf(random(1, 4) / 0),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has no result")));
  EXPECT_THAT(ErrorOf(generator(INT64_MAX) + 1),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has no result")));
}

// OF-32, OFc-03
TEST_F(GeneratorTest, ATensorOfANegativeSideIsAnError) {
  EXPECT_THAT(ErrorOf(random_tensor({random(-3, -1)})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("expected a whole number of 0 or more")));
  EXPECT_THAT(
      ErrorOf(random_tensor({1 << 20, 1 << 20, 1 << 20})),
      FailsWith(absl::StatusCode::kResourceExhausted, HasSubstr("elements")));
}

// OFc-03
TEST_F(GeneratorTest, ATensorOfTooManySidesIsAnError) {
  EXPECT_THAT(
      ErrorOf(random_tensor_of_rank(64)),
      FailsWith(absl::StatusCode::kResourceExhausted, HasSubstr("elements")));
  EXPECT_THAT(ErrorOf(random_tensor_of_rank(65)),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("found 65 sides, expected 64 at most")));
}

// Twice the number that another one makes.
class TwiceNode : public GeneratorNode {
 public:
  explicit TwiceNode(generator number) : GeneratorNode({std::move(number)}) {}
  double Size() const override { return children()[0].size(); }
  void To(Annotation annotation) override {
    is_float_ = annotation == Annotation::kFloat;
  }
  int draws() const { return draws_; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    ++draws_;
    const auto number = children()[0].value(draw);
    if (!number.ok()) return number;
    if (is_float_) return GeneratedValue{2 * *number->AsDouble()};
    return GeneratedValue{2 * *number->AsInt()};
  }

 private:
  bool is_float_ = false;
  int draws_ = 0;
};

// OF-15 to OF-17, OF-20, OF-21
TEST_F(GeneratorTest, OneOfYourOwnIsLikeTheOthers) {
  const generator number = random(1, 1'000'000);
  const auto node = std::make_shared<TwiceNode>(number);
  const generator twice(node);
  EXPECT_EQ(twice.size(), 999'999);
  EXPECT_EQ(*ValueOf(twice + 1).AsInt(), 2 * *ValueOf(number).AsInt() + 1);
  ValueOf(twice);
  EXPECT_EQ(node->draws(), 1);
  twice.to(Annotation::kFloat);
  EXPECT_NE(Anew(twice, 1).As<double>(), nullptr);
  EXPECT_EQ(node->draws(), 2);
}

// One that is made of itself, as a mistake in a test makes it.
class EndlessNode : public GeneratorNode {
 public:
  double Size() const override { return 1; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    return generator(std::make_shared<EndlessNode>()).value(draw);
  }
};

// OF-21, OFc-01
TEST_F(GeneratorTest, AGeneratorWithoutEndIsAnError) {
  EXPECT_THAT(
      ErrorOf(generator(std::make_shared<EndlessNode>())),
      FailsWith(absl::StatusCode::kResourceExhausted, HasSubstr("has no end")));
}

// OF-32
TEST_F(GeneratorTest, TheSameChoicesGiveTheSameTensor) {
  const generator x = random_tensor_of_rank(random(1, 5));
  Choices first{RandomSource(3)};
  CaseDraw draw(&first);
  const NDArray a = *x.value(draw)->As<NDArray>();
  Choices again(ValuesOf(first.made()));
  CaseDraw second(&again);
  const NDArray b = *x.value(second)->As<NDArray>();
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(ToDoubles(a), ToDoubles(b));
}

}  // namespace
}  // namespace nodewise
