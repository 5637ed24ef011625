#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedAttr Reduction(const char* word) {
  return {"reduction", std::string(word)};
}

TEST(GatherTest, IndicesMayCountFromTheEnd) {
  EXPECT_THAT(
      ElementsOf({"Gather", 13, {Attr("axis", 1)}}, {Matrix(), Longs({-1, 0})}),
      ElementsAre(3, 1, 6, 4));
}

TEST(GatherTest, IndicesOutsideAreRefused) {
  EXPECT_THAT(EvaluateOne({"Gather", 13}, {Matrix(), Longs({2})}),
              FailsWith(kInvalid, HasSubstr("input 1: index 2")));
  EXPECT_FALSE(EvaluateOne({"Gather", 13}, {Matrix(), Longs({-3})}).ok());
}

TEST(GatherTest, ElementsOfShapesArePicked) {
  const Shape shape{Dim::Named("n"), 3};
  EXPECT_EQ(KnownElements({"Gather", 13},
                          {{"int64[2]", shape}, {"int64[]", Shape{0}}}),
            "[n]");
}

TEST(GatherElementsTest, EachIndexIsForItsPlace) {
  const auto indices = MakeTensor<int64_t>({2, 2}, {0, 0, 1, -1});
  EXPECT_THAT(ElementsOf({"GatherElements", 13, {Attr("axis", 1)}},
                         {Matrix(), indices}),
              ElementsAre(1, 1, 5, 6));
  const auto tall = MakeTensor<int64_t>({3, 1}, {0, 0, 0});
  EXPECT_FALSE(
      EvaluateOne({"GatherElements", 13, {Attr("axis", 1)}}, {Matrix(), tall})
          .ok());
}

TEST(GatherNdTest, TuplesPickSlices) {
  const auto pairs = MakeTensor<int64_t>({2, 2}, {0, 2, 1, -3});
  EXPECT_THAT(ElementsOf({"GatherND", 13}, {Matrix(), pairs}),
              ElementsAre(3, 4));
  const auto rows = MakeTensor<int64_t>({1, 1}, {1});
  EXPECT_THAT(ElementsOf({"GatherND", 13}, {Matrix(), rows}),
              ElementsAre(4, 5, 6));
  const auto by_batch = MakeTensor<int64_t>({2, 1}, {1, 0});
  EXPECT_THAT(ElementsOf({"GatherND", 13, {Attr("batch_dims", 1)}},
                         {Matrix(), by_batch}),
              ElementsAre(2, 4));
}

TEST(GatherNdTest, BatchesBeyondTheRankAreRefused) {
  EXPECT_THAT(EvaluateOne({"GatherND", 13, {Attr("batch_dims", 2)}},
                          {Matrix(), Longs({0})}),
              FailsWith(kInvalid, HasSubstr("batch_dims")));
}

TEST(ReverseSequenceTest, EverySequenceHasItsLength) {
  EXPECT_THAT(ElementsOf({"ReverseSequence",
                          10,
                          {Attr("batch_axis", 0), Attr("time_axis", 1)}},
                         {Matrix(), Longs({2, 3})}),
              ElementsAre(2, 1, 3, 6, 5, 4));
}

TEST(ScatterElementsTest, RepeatedIndicesAreReduced) {
  const std::vector<NDArray> inputs = {Floats({1, 2, 3}), Longs({0, 0, -1}),
                                       Floats({5, 7, 2})};
  EXPECT_THAT(ElementsOf({"ScatterElements", 18, {Reduction("add")}}, inputs),
              ElementsAre(13, 2, 5));
  EXPECT_THAT(ElementsOf({"ScatterElements", 18, {Reduction("mul")}}, inputs),
              ElementsAre(35, 2, 6));
  EXPECT_THAT(ElementsOf({"ScatterElements", 18, {Reduction("max")}}, inputs),
              ElementsAre(7, 2, 3));
  EXPECT_THAT(ElementsOf({"ScatterElements", 18, {Reduction("min")}}, inputs),
              ElementsAre(1, 2, 2));
}

TEST(ScatterElementsTest, IntegersWrapAround) {
  const auto x = MakeTensor<int8_t>({1}, {127});
  const auto one = MakeTensor<int8_t>({1}, {1});
  EXPECT_THAT(ElementsOf<int8_t>({"ScatterElements", 18, {Reduction("add")}},
                                 {x, Longs({0}), one}),
              ElementsAre(-128));
}

TEST(ScatterElementsTest, TheOldNameMeansTheSame) {
  EXPECT_THAT(
      ElementsOf({"Scatter", 9}, {Floats({1, 2}), Longs({1}), Floats({9})}),
      ElementsAre(1, 9));
}

TEST(ScatterNdTest, SlicesAreWritten) {
  const auto rows = MakeTensor<int64_t>({1, 1}, {-1});
  const auto updates = MakeTensor<float>({1, 3}, {7, 8, 9});
  EXPECT_THAT(ElementsOf({"ScatterND", 16}, {Matrix(), rows, updates}),
              ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_THAT(EvaluateOne({"ScatterND", 16}, {Matrix(), rows, Matrix()}),
              FailsWith(kInvalid, HasSubstr("input 2")));
}

TEST(ScatterNdTest, SumsHaveBounds) {
  const auto index = MakeTensor<int64_t>({2, 1}, {0, 0});
  const auto y = EvaluateAll({"ScatterND", 16, {Reduction("add")}},
                             {Floats({1, 5}), index, Floats({1, 1})}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_GT(y->bounds[0].proved[0], 0);
  EXPECT_EQ(y->bounds[0].proved[1], 0);
}

// Kernels multiply one after the other.
TEST(ScatterNdTest, ProductsMayUnderflowAndOverflowOnTheirWay) {
  const auto index = MakeTensor<int64_t>({2, 1}, {0, 0});
  const auto bound = [&](float old, float first, float second) {
    const auto y =
        EvaluateAll({"ScatterND", 16, {Reduction("mul")}},
                    {Floats({old}), index, Floats({first, second})}, true);
    EXPECT_THAT(y, IsOk());
    return y->bounds[0].proved[0];
  };
  EXPECT_LT(bound(3, 5, 7), 105 * 0x1p-21);
  // The first product is a multiple of 2^-149.
  EXPECT_GT(bound(0x1p-149F, 1.3F, 1024), 0x1p-140);
  EXPECT_EQ(bound(1e30F, 1e30F, 1e-30F), kInf);
}

TEST(TensorScatterTest, CircularWritesWrapAround) {
  const auto cache = MakeTensor<float>({1, 4, 1}, {1, 2, 3, 4});
  const auto update = MakeTensor<float>({1, 2, 1}, {8, 9});
  const OpSetup circular{
      "TensorScatter", 24, {{"mode", std::string("circular")}}};
  EXPECT_THAT(ElementsOf(circular, {cache, update, Longs({3})}),
              ElementsAre(9, 2, 3, 8));
  EXPECT_FALSE(
      EvaluateOne({"TensorScatter", 24}, {cache, update, Longs({3})}).ok());
}

}  // namespace
}  // namespace nodewise
