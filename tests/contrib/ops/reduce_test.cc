#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;

// 1 to 24 as [2, 3, 4].
NDArray Cube() {
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i + 1);
  }
  return MakeTensor<float>({2, 3, 4}, values);
}

TEST(ReduceTest, AnySidesMayGo) {
  const OpSetup sum{"ReduceSum", 13, {Attr("keepdims", 0)}};
  EXPECT_THAT(ElementsOf(sum, {Cube(), Longs({-1})}),
              ElementsAre(10, 26, 42, 58, 74, 90));
  EXPECT_THAT(ElementsOf(sum, {Cube(), Longs({0, 2})}),
              ElementsAre(68, 100, 132));
  EXPECT_THAT(ElementsOf(sum, {Cube(), Longs({1})}),
              ElementsAre(15, 18, 21, 24, 51, 54, 57, 60));
  EXPECT_THAT(ElementsOf(sum, {Cube(), Longs({0, 1})}),
              ElementsAre(66, 72, 78, 84));
}

TEST(ReduceTest, NoAxesAreAllOrNone) {
  const OpSetup noop{"ReduceSumSquare", 18, {Attr("noop_with_empty_axes", 1)}};
  EXPECT_THAT(ElementsOf(noop, {Floats({2, 3})}), ElementsAre(4, 9));
  const auto all =
      EvaluateOne({"ReduceSumSquare"}, {Floats({2, 3}), Longs({})});
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(all->shape(), ElementsAre(1));
  EXPECT_THAT(ValuesOf(*all), ElementsAre(13));
}

TEST(ReduceTest, AShapeThatIsNotReducedIsKnownAsItIs) {
  const Known shape{"int64[2]", Shape{Dim::Named("n"), 3}};
  for (const char* const name :
       {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}) {
    const OpSetup noop{name, 20, {Attr("noop_with_empty_axes", 1)}};
    EXPECT_EQ(KnownElements(noop, {shape}), "[n, 3]") << name;
  }
  EXPECT_EQ(KnownElements({"ReduceMax"}, {{"int64[2]", Shape{4, 3}}}), "[4]");
}

TEST(ReduceTest, EachKindHasItsFormula) {
  const auto x = Floats({1, -2, 4});
  const std::vector<std::pair<const char*, float>> all = {
      {"ReduceSum", 3},
      {"ReduceMean", 1},
      {"ReduceMax", 4},
      {"ReduceMin", -2},
      {"ReduceProd", -8},
      {"ReduceL1", 7},
      {"ReduceL2", 4.5825757f},
      {"ReduceSumSquare", 21},
      {"ReduceLogSum", 1.0986123f},
      {"ReduceLogSumExp", 4.0509458f}};
  for (const auto& [name, y] : all) {
    EXPECT_THAT(ElementsOf({name}, {x}), ElementsAre(FloatEq(y))) << name;
  }
}

TEST(ReduceTest, OfNothingTheNeutralElementIsLeft) {
  const auto none = MakeTensor<float>({2, 0}, {});
  const OpSetup sum{"ReduceSum", 13, {Attr("keepdims", 0)}};
  EXPECT_THAT(ElementsOf(sum, {none, Longs({1})}), ElementsAre(0, 0));
  EXPECT_THAT(ElementsOf({"ReduceMax"}, {none}), ElementsAre(-kInf));
  EXPECT_THAT(ElementsOf({"ReduceMin"}, {none}), ElementsAre(kInf));
  EXPECT_THAT(ElementsOf({"ReduceProd"}, {none}), ElementsAre(1));
  EXPECT_THAT(ElementsOf({"ReduceLogSumExp"}, {none}), ElementsAre(-kInf));
  EXPECT_TRUE(std::isnan(ElementsOf({"ReduceMean"}, {none})[0]));
  EXPECT_THAT(ElementsOf(sum, {none, Longs({0})}), IsEmpty());
}

// The text does not say whether a NaN is larger than a number, or smaller.
TEST(ReduceTest, AnythingIsAllowedOfAnExtremeWithNan) {
  const NDArray x = MakeTensor<float>({2, 2}, {1, kNan, 2, 3});
  for (const char* name : {"ReduceMax", "ReduceMin", "ArgMax", "ArgMin"}) {
    const bool is_place = name[0] == 'A';
    std::vector<NDArray> inputs = {x};
    if (!is_place) inputs.push_back(Longs({1}));
    const auto y = EvaluateAll(
        {name, 18,
         is_place ? std::vector{Attr("axis", 1)} : std::vector<NamedAttr>{}},
        inputs, true);
    ASSERT_THAT(y, IsOk()) << name;
    EXPECT_THAT(y->bounds[0].proved,
                ElementsAre(std::numeric_limits<double>::infinity(), 0))
        << name;
  }
}

TEST(ReduceTest, NanIsKeptAndInfinitiesAreNone) {
  for (const char* name : {"ReduceMax", "ReduceMin", "ReduceLogSumExp"}) {
    EXPECT_TRUE(std::isnan(ElementsOf({name}, {Floats({1, kNan, 2})})[0]))
        << name;
  }
  EXPECT_THAT(ElementsOf({"ReduceLogSumExp"}, {Floats({-kInf, -kInf})}),
              ElementsAre(-kInf));
  EXPECT_THAT(ElementsOf({"ReduceLogSumExp"}, {Floats({1000, 1000})}),
              ElementsAre(FloatEq(1000.6931f)));
}

TEST(ReduceTest, IntegersAreExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  const auto x = Longs({large, 2});
  EXPECT_THAT(ElementsOf<int64_t>({"ReduceSum"}, {x}), ElementsAre(large + 2));
  EXPECT_THAT(ElementsOf<int64_t>({"ReduceMax"}, {x}), ElementsAre(large));
  EXPECT_THAT(ElementsOf<int64_t>({"ReduceMean"}, {Longs({-3, -4})}),
              ElementsAre(-3));
  EXPECT_THAT(ElementsOf<int64_t>({"ReduceL2"}, {Longs({large, 0})}),
              ElementsAre(large));
}

TEST(ReduceTest, RootOfAWrappedSumIsFound) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const auto x = MakeTensor<uint64_t>({2}, {most, most});
  EXPECT_EQ(ElementsOf<uint64_t>({"ReduceL2"}, {x}).size(), 1u);
}

TEST(ReduceTest, WrongAxesAreRefused) {
  EXPECT_THAT(
      EvaluateOne({"ReduceSum"}, {Cube(), Longs({3})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("axis 3")));
  EXPECT_THAT(
      EvaluateOne({"ReduceSum"}, {Cube(), Longs({0, -3})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(ReduceTest, InferenceSaysWhatCanBeSaid) {
  const Known data{"float32[batch, 3, 1]"};
  const OpSetup flat{"ReduceMean", 18, {Attr("keepdims", 0)}};
  EXPECT_EQ(InferredType(flat, {data, {"int64[1]", Shape{1}}}),
            "float32[batch, 1]");
  EXPECT_EQ(InferredType(flat, {data, {"int64[1]"}}), "float32[?, ?]");
  EXPECT_EQ(InferredType(flat, {data, {"int64[?]"}}), "float32[...]");
  EXPECT_EQ(InferredType({"ReduceMean"}, {data, {"int64[?]"}}),
            "float32[?, ?, 1]");
}

TEST(ReduceTest, ShapeBecomesItsNumberOfElements) {
  const Known shape{"int64[3]", Shape{2, 3, 4}};
  EXPECT_EQ(KnownElements({"ReduceProd", 13, {Attr("keepdims", 0)}}, {shape}),
            "[24]");
}

TEST(ArgMaxTest, TiesGoToTheFirstOrTheLast) {
  const auto x = MakeTensor<float>({2, 3}, {2, 1, 2, 3, 3, 0});
  const OpSetup first{"ArgMax", 13, {Attr("axis", -1), Attr("keepdims", 0)}};
  EXPECT_THAT(ElementsOf<int64_t>(first, {x}), ElementsAre(0, 0));
  const OpSetup last{
      "ArgMax", 13, {Attr("axis", 1), Attr("select_last_index", 1)}};
  EXPECT_THAT(ElementsOf<int64_t>(last, {x}), ElementsAre(2, 1));
  EXPECT_THAT(ElementsOf<int64_t>({"ArgMin"}, {x}), ElementsAre(0, 0, 1));
}

TEST(ArgMaxTest, AxisWithoutElementsIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"ArgMax"}, {MakeTensor<float>({0, 2}, {})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("no elements")));
}

TEST(CumSumTest, DirectionAndStartAreChosen) {
  const auto x = Floats({1, 2, 3});
  const auto axis = MakeTensor<int32_t>({}, {0});
  EXPECT_THAT(ElementsOf({"CumSum"}, {x, axis}), ElementsAre(1, 3, 6));
  EXPECT_THAT(ElementsOf({"CumSum", 14, {Attr("exclusive", 1)}}, {x, axis}),
              ElementsAre(0, 1, 3));
  const OpSetup both{"CumSum", 14, {Attr("exclusive", 1), Attr("reverse", 1)}};
  EXPECT_THAT(ElementsOf(both, {x, axis}), ElementsAre(5, 3, 0));
  EXPECT_THAT(ElementsOf({"CumProd"}, {x, axis}), ElementsAre(1, 2, 6));
}

TEST(CumSumTest, AxisBeyondTheRankIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"CumSum"}, {Floats({1}), Longs({1})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("axis 1")));
}

}  // namespace
}  // namespace nodewise
