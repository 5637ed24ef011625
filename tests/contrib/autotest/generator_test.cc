#include "nodewise/autotest/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "nodewise/op/tensor_loops.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

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

TEST_F(GeneratorTest, RandomIsHalfOpen) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    seen.insert(*Anew(random(1, 4), seed).AsInt());
  }
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3}));
}

TEST_F(GeneratorTest, OneCaseHasOneValue) {
  const generator x = random(0, 1'000'000'000);
  EXPECT_EQ(*ValueOf(x).AsInt(), *ValueOf(x).AsInt());
}

TEST_F(GeneratorTest, ANewCaseDrawsAnew) {
  const generator x = random(0, 1'000'000'000);
  EXPECT_NE(*Anew(x, 1).AsInt(), *Anew(x, 2).AsInt());
}

TEST_F(GeneratorTest, GeneratorsCombine) {
  const generator m = random(3, 9);
  const generator doubled = m * 2 + 1;
  EXPECT_EQ(*ValueOf(doubled).AsInt(), *ValueOf(m).AsInt() * 2 + 1);
}

TEST_F(GeneratorTest, RandomMakesTheTypeThatIsWanted) {
  const generator x = random(1, 4);
  x.to(Annotation::kFloat);
  const GeneratedValue value = ValueOf(x);
  ASSERT_NE(value.As<double>(), nullptr);
  EXPECT_GE(*value.As<double>(), 1);
  EXPECT_LT(*value.As<double>(), 4);
}

TEST_F(GeneratorTest, DeviceIsADeviceWhateverIsWanted) {
  const generator device = random_device();
  device.to(Annotation::kInt);
  EXPECT_NE(ValueOf(device).As<DLDevice>(), nullptr);
}

TEST_F(GeneratorTest, SizeCountsTheValues) {
  EXPECT_EQ(random(1, 4).size(), 3);
  EXPECT_EQ(oneof({random(1, 4), random_bool(), nothing()}).size(), 6);
  EXPECT_EQ(tuple({random(0, 3), random_bool()}).size(), 6);
  EXPECT_TRUE(std::isinf(random_tensor({2}).size()));
}

TEST_F(GeneratorTest, NothingComesInAThirdOfTheCases) {
  int without = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    without += Anew(random_or_nothing(1, 4), seed).is_nothing() ? 1 : 0;
  }
  EXPECT_NEAR(without, 1000, 150);
}

TEST_F(GeneratorTest, OddsDecideHowOftenOneComes) {
  int first = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    first += *Anew(oneof({1, 2}, {0.1, 0.9}), seed).AsInt() == 1 ? 1 : 0;
  }
  EXPECT_NEAR(first, 300, 100);
}

TEST_F(GeneratorTest, TensorsShareASize) {
  const generator k = random(1, 100);
  const GeneratedValue x = ValueOf(random_tensor({3, k}));
  const GeneratedValue y = ValueOf(random_tensor({k, 2}));
  EXPECT_EQ(x.As<NDArray>()->shape()[1], y.As<NDArray>()->shape()[0]);
}

TEST_F(GeneratorTest, AnEmptySpaceIsAnError) {
  EXPECT_THAT(ErrorOf(random(4, 4)),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("random(4, 4): is empty")));
  EXPECT_THAT(ErrorOf(random(5, 2)),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected an upper end above 5")));
  EXPECT_THAT(ErrorOf(oneof({})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("oneof: is empty")));
  EXPECT_THAT(ErrorOf(random_device({})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("random_device: is empty")));
}

TEST_F(GeneratorTest, AResultThatThereIsNotIsAnError) {
  EXPECT_THAT(ErrorOf(random(1, 4) / 0),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has no result")));
  EXPECT_THAT(ErrorOf(generator(INT64_MAX) + 1),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has no result")));
}

TEST_F(GeneratorTest, ATensorOfANegativeSideIsAnError) {
  EXPECT_THAT(ErrorOf(random_tensor({random(-3, -1)})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected a whole number of 0 or more")));
  EXPECT_THAT(ErrorOf(random_tensor({1 << 20, 1 << 20, 1 << 20})),
              FailsWith(absl::StatusCode::kResourceExhausted,
                        HasSubstr("elements")));
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

TEST_F(GeneratorTest, AGeneratorWithoutEndIsAnError) {
  EXPECT_THAT(ErrorOf(generator(std::make_shared<EndlessNode>())),
              FailsWith(absl::StatusCode::kResourceExhausted,
                       HasSubstr("has no end")));
}

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
