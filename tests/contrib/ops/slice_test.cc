#include <numeric>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct SliceCase {
  int64_t start, end, step;
  std::vector<float> expected;
};

TEST(SliceTest, StartsAndEndsAreClampedByTheStepsSign) {
  const SliceCase cases[] = {
      {1, 3, 1, {1, 2}},
      {-2, INT64_MAX, 1, {3, 4}},
      {-100, 2, 1, {0, 1}},
      {4, -100, -1, {4, 3, 2, 1, 0}},
      {INT64_MAX, INT64_MIN, -2, {4, 2, 0}},
      {-1, 0, -3, {4, 1}},
      {3, 1, 1, {}},
      {0, 5, INT64_MAX, {0}},
      {4, INT64_MIN, INT64_MIN, {4}},
  };
  for (const SliceCase& c : cases) {
    EXPECT_EQ(
        ElementsOf({"Slice"}, {Floats({0, 1, 2, 3, 4}), Longs({c.start}),
                               Longs({c.end}), Longs({0}), Longs({c.step})}),
        c.expected)
        << c.start << ":" << c.end << ":" << c.step;
  }
}

TEST(SliceTest, AStepOfZeroIsRefused) {
  EXPECT_THAT(EvaluateOne({"Slice"}, {Floats({1}), Longs({0}), Longs({1}),
                                      Longs({0}), Longs({0})}),
              FailsWith(kInvalid, HasSubstr("step of 0")));
}

TEST(SliceTest, MoreStartsThanSidesAreRefused) {
  EXPECT_FALSE(
      EvaluateOne({"Slice"}, {Floats({1}), Longs({0, 0}), Longs({1, 1})}).ok());
}

TEST(SliceTest, WholeSidesKeepTheirName) {
  EXPECT_EQ(InferredType({"Slice"}, {{"float32[batch, 8]"},
                                     {"int64[2]", Dims({0, 2})},
                                     {"int64[2]", Dims({INT64_MAX, 4})}}),
            "float32[batch, 2]");
  EXPECT_EQ(InferredType({"Slice"}, {{"float32[batch, 8]"},
                                     {"int64[1]", Dims({1})},
                                     {"int64[1]", Dims({5})}}),
            "float32[?, 8]");
}

TEST(SliceTest, ElementsOfShapesAreCutToo) {
  const Shape shape{Dim::Named("n"), 3, 4};
  EXPECT_EQ(KnownElements({"Slice"}, {{"int64[3]", shape},
                                      {"int64[1]", Dims({0})},
                                      {"int64[1]", Dims({2})}}),
            "[n, 3]");
}

TEST(SplitTest, TheLastPartMayBeSmallerFromOpset18On) {
  const OpSetup split{"Split", 18, {Attr("num_outputs", 3)}, 3};
  const auto parts = EvaluateAll(split, {Floats({1, 2, 3, 4, 5})});
  ASSERT_THAT(parts, IsOk());
  EXPECT_THAT(ValuesOf(parts->outputs[1]), ElementsAre(3, 4));
  EXPECT_THAT(ValuesOf(parts->outputs[2]), ElementsAre(5));
}

TEST(SplitTest, EqualPartsMustDivideBefore) {
  EXPECT_THAT(EvaluateAll({"Split", 11, {}, 2}, {Floats({1, 2, 3})}),
              FailsWith(kInvalid, HasSubstr("does not split")));
}

TEST(SplitTest, LengthsAreTakenAsGiven) {
  const OpSetup split{"Split", 13, {Attr("axis", -1)}, 2};
  const auto parts = EvaluateAll(split, {Matrix(), Longs({1, 2})});
  ASSERT_THAT(parts, IsOk());
  EXPECT_THAT(ValuesOf(parts->outputs[0]), ElementsAre(1, 4));
  EXPECT_THAT(ValuesOf(parts->outputs[1]), ElementsAre(2, 3, 5, 6));
}

TEST(SplitTest, LengthsThatDoNotAddUpAreRefused) {
  EXPECT_THAT(EvaluateAll({"Split", 13, {}, 2}, {Matrix(), Longs({2, 2})}),
              FailsWith(kInvalid, HasSubstr("4 together, expected 2")));
  for (const int64_t length : {int64_t{-1}, INT64_MIN}) {
    EXPECT_THAT(
        EvaluateAll({"Split", 13, {}, 2}, {Matrix(), Longs({length, 2})}),
        FailsWith(kInvalid, HasSubstr("input 1: has a length of -")));
  }
}

TEST(ConcatTest, TensorsLieBehindEachOther) {
  const auto column = MakeTensor<float>({2, 1}, {10, 20});
  const auto y =
      EvaluateOne({"Concat", 13, {Attr("axis", -1)}}, {Matrix(), column});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(*y), ElementsAre(1, 2, 3, 10, 4, 5, 6, 20));
}

TEST(ConcatTest, OtherSidesMustBeTheSame) {
  EXPECT_THAT(EvaluateOne({"Concat", 13, {Attr("axis", 0)}},
                          {Matrix(), MakeTensor<float>({1, 2}, {1, 2})}),
              FailsWith(kInvalid, HasSubstr("side 1 is 2, expected 3")));
}

TEST(ConcatTest, ElementsNotKnownAreKeptOpen) {
  EXPECT_EQ(KnownElements({"Concat", 13, {Attr("axis", 0)}},
                          {{"int64[1]", Shape{Dim::Named("n")}},
                           {"int64[1]"},
                           {"int64[1]", Dims({4})}}),
            "[n, ?, 4]");
}

TEST(TransposeTest, SidesAreTurnedAround) {
  const auto y = EvaluateOne({"Transpose"}, {Matrix()});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(3, 2));
  EXPECT_THAT(ValuesOf(*y), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(TransposeTest, LargeTensorsAreWalkedInTiles) {
  constexpr int64_t kRows = 75;
  constexpr int64_t kColumns = 131;
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0F);
  const auto y =
      ElementsOf({"Transpose", 13, {{"perm", std::vector<int64_t>{1, 2, 0}}}},
                 {MakeTensor<float>({kRows, kColumns, 1}, values)});
  ASSERT_EQ(y.size(), values.size());
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t from = i % kRows * kColumns + i / kRows;
    ASSERT_EQ(y[static_cast<size_t>(i)], static_cast<float>(from)) << i;
  }
}

TEST(TransposeTest, WhatIsNotAPermutationIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"Transpose", 13, {{"perm", std::vector<int64_t>{0, 0}}}},
                  {Matrix()}),
      FailsWith(kInvalid, HasSubstr("perm")));
}

}  // namespace
}  // namespace nodewise
