#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Heads(const std::vector<int64_t>& shape,
              const std::vector<float>& values) {
  return MakeTensor<float>(shape, values);
}

TEST(AttentionTest, CausalQueriesSeeNoLaterKeys) {
  const NDArray q = Heads({1, 1, 2, 1}, {0, 0});
  const NDArray v = Heads({1, 1, 2, 1}, {1, 3});
  EXPECT_THAT(ElementsOf({"Attention"}, {q, q, v}), ElementsAre(2, 2));
  EXPECT_THAT(
      ElementsOf({"Attention", 24, {{"is_causal", int64_t{1}}}}, {q, q, v}),
      ElementsAre(1, 2));
}

TEST(AttentionTest, WithOnlySomeKeysValidTheQueriesAreAtTheirEnd) {
  const NDArray q = Heads({1, 1, 2, 1}, {0, 0});
  const NDArray k = Heads({1, 1, 4, 1}, {0, 0, 0, 0});
  const NDArray v = Heads({1, 1, 4, 1}, {1, 3, 8, 100});
  for (const int opset : {24, 25}) {
    EXPECT_THAT(
        ElementsOf({"Attention", opset, {Attr("is_causal", 1)}},
                   {q, k, v, NDArray(), NDArray(), NDArray(), Longs({3})}),
        ElementsAre(2, 4));
  }
}

TEST(AttentionTest, AQueryThatSeesNothingGivesZeroAndWeightsOfZero) {
  const NDArray q = Heads({1, 1, 2, 1}, {0, 0});
  const NDArray v = Heads({1, 1, 2, 1}, {kNan, 3});
  const NDArray mask = MakeTensor<uint8_t>({2, 2}, {0, 0, 0, 1}, kBool);
  const auto y =
      EvaluateAll({"Attention", 23, {Attr("qk_matmul_output_mode", 3)}, 4},
                  {q, q, Heads({1, 1, 2, 1}, {1, 3}), mask}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]), ElementsAre(0, 3));
  EXPECT_THAT(ValuesOf(y->outputs[3]), ElementsAre(0, 0, 0, 1));
  EXPECT_EQ(y->bounds[0].proved[0], 0);
  EXPECT_GT(y->bounds[0].proved[1], 0);
  EXPECT_EQ(ElementsOf({"Attention"}, {q, q, v, mask})[0], 0);
  // More queries than valid keys: the first has no place.
  EXPECT_THAT(ElementsOf({"Attention", 24, {Attr("is_causal", 1)}},
                         {q, q, Heads({1, 1, 2, 1}, {1, 3}), NDArray(),
                          NDArray(), NDArray(), Longs({1})}),
              ElementsAre(0, 1));
}

TEST(AttentionTest, AWindowLimitsBothSides) {
  const NDArray q = Heads({1, 1, 4, 1}, {0, 0, 0, 0});
  const NDArray v = Heads({1, 1, 4, 1}, {1, 3, 5, 9});
  const auto of = [&](int64_t left, int64_t right) {
    return ElementsOf(
        {"Attention",
         25,
         {Attr("left_window_size", left), Attr("right_window_size", right)}},
        {q, q, v});
  };
  EXPECT_THAT(of(0, 0), ElementsAre(1, 3, 5, 9));
  EXPECT_THAT(of(1, 0), ElementsAre(1, 2, 4, 7));
  EXPECT_THAT(of(0, 1), ElementsAre(2, 4, 7, 9));
  EXPECT_THAT(of(INT64_MAX, 0), ElementsAre(1, 2, 3, 4.5F));
  EXPECT_THAT(
      EvaluateOne({"Attention", 25, {Attr("left_window_size", -2)}}, {q, q, v}),
      FailsWith(kInvalid, HasSubstr("left_window_size: is -2")));
  EXPECT_THAT(
      EvaluateOne({"Attention", 24, {Attr("left_window_size", 1)}}, {q, q, v}),
      FailsWith(kInvalid, HasSubstr("left_window_size")));
}

TEST(AttentionTest, ShortMasksHideTheOtherKeys) {
  const NDArray q = Heads({1, 1, 1, 1}, {0});
  const NDArray k = Heads({1, 1, 3, 1}, {0, 0, 0});
  const NDArray v = Heads({1, 1, 3, 1}, {1, 3, 100});
  EXPECT_THAT(ElementsOf({"Attention"}, {q, k, v, Heads({1, 2}, {0, 0})}),
              ElementsAre(2));
}

TEST(AttentionTest, HeadsThatAreNotMultiplesAreRefused) {
  EXPECT_THAT(
      InferOf({"Attention"}, {{"float32[1, 3, 2, 4]"},
                              {"float32[1, 2, 2, 4]"},
                              {"float32[1, 2, 2, 4]"}}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("do not fit")));
}

TEST(RotaryEmbeddingTest, HalvesOrNeighboursTurn) {
  const NDArray x = Heads({1, 1, 1, 4}, {1, 2, 3, 4});
  const NDArray cos = Heads({1, 1, 2}, {0, 0});
  const NDArray sin = Heads({1, 1, 2}, {1, 1});
  EXPECT_THAT(ElementsOf({"RotaryEmbedding"}, {x, cos, sin}),
              ElementsAre(-3, -4, 1, 2));
  EXPECT_THAT(ElementsOf({"RotaryEmbedding", 23, {{"interleaved", int64_t{1}}}},
                         {x, cos, sin}),
              ElementsAre(-2, 1, -4, 3));
}

TEST(RotaryEmbeddingTest, PlacesBeyondTheCacheAreRefused) {
  EXPECT_THAT(
      EvaluateOne({"RotaryEmbedding"},
                  {Heads({1, 1, 1, 2}, {1, 2}), Heads({1, 1}, {1}),
                   Heads({1, 1}, {0}), MakeTensor<int64_t>({1, 1}, {7})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("has 7")));
}

}  // namespace
}  // namespace nodewise
