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

TEST(AttentionTest, ShortMasksHideTheOtherKeys) {
  const NDArray q = Heads({1, 1, 1, 1}, {0});
  const NDArray k = Heads({1, 1, 3, 1}, {0, 0, 0});
  const NDArray v = Heads({1, 1, 3, 1}, {1, 3, 100});
  EXPECT_THAT(ElementsOf({"Attention"}, {q, k, v, Heads({1, 2}, {0, 0})}),
              ElementsAre(2));
}

TEST(AttentionTest, HeadsThatAreNoMultiplesAreRefused) {
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
