#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

constexpr const char* kName = "CausalConvWithState";

NDArray Cube(const std::vector<int64_t>& shape,
             const std::vector<float>& values) {
  return MakeTensor<float>(shape, values);
}

TEST(CausalConvTest, TheLastTapIsForTheSamePlace) {
  const auto x = Cube({1, 2, 3}, {1, 2, 3, 1, 1, 1});
  const auto w = Cube({2, 1, 2}, {10, 1, 0, 5});
  EXPECT_THAT(ElementsOf({kName}, {x, w, Floats({0, 100})}),
              ElementsAre(1, 12, 23, 105, 105, 105));
}

TEST(CausalConvTest, AStateContinuesTheSequence) {
  const auto w = Cube({1, 1, 3}, {1, 2, 4});
  const auto whole =
      EvaluateAll({kName, 27, {}, 2}, {Cube({1, 1, 4}, {1, 2, 3, 4}), w});
  const auto first = EvaluateAll({kName, 27, {}, 2}, {Cube({1, 1, 1}, {1}), w});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(ValuesOf(first->outputs[1]), ElementsAre(0, 1));
  const auto rest = EvaluateAll(
      {kName, 27, {}, 2},
      {Cube({1, 1, 3}, {2, 3, 4}), w, NDArray(), first->outputs[1]});
  ASSERT_THAT(rest, IsOk());
  EXPECT_THAT(ValuesOf(rest->outputs[0]), ElementsAre(10, 17, 24));
  EXPECT_THAT(ValuesOf(rest->outputs[1]), ElementsAre(3, 4));
  EXPECT_THAT(ValuesOf(whole->outputs[1]), ElementsAre(3, 4));
}

TEST(CausalConvTest, OneTapHasAStateOfNoPlaces) {
  const auto all = EvaluateAll({kName, 27, {}, 2},
                               {Cube({1, 1, 2}, {1, 2}), Cube({1, 1, 1}, {3})});
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(ValuesOf(all->outputs[0]), ElementsAre(3, 6));
  EXPECT_THAT(all->outputs[1].shape(), ElementsAre(1, 1, 0));
}

TEST(CausalConvTest, SiluAndSwishAreTheSame) {
  const auto x = Cube({1, 1, 3}, {-1000, 0, 2});
  for (const char* name : {"silu", "swish"}) {
    EXPECT_THAT(ElementsOf({kName, 27, {{"activation", std::string(name)}}},
                           {x, Cube({1, 1, 1}, {1})}),
                Pointwise(FloatEq(),
                          std::vector<float>{0, 0, 2 / (1 + std::exp(-2.0f))}));
  }
}

TEST(CausalConvTest, SidesThatAreNotKnownStayUnknown) {
  const auto infos =
      InferOf({kName, 27, {}, 2}, {{"float32[b, ?, t]"}, {"float32[4, 1, 5]"}});
  ASSERT_THAT(infos, IsOk());
  EXPECT_EQ(ToString((*infos)[0].type), "float32[b, 4, t]");
  EXPECT_EQ(ToString((*infos)[1].type), "float32[b, 4, 4]");
  EXPECT_EQ(InferredType({kName}, {{"float32[...]"}, {"?[...]"}}),
            "float32[?, ?, ?]");
}

TEST(CausalConvTest, BoundsCountTheTermsAndWhatPassesIsExact) {
  const auto all =
      EvaluateAll({kName, 27, {}, 2},
                  {Cube({1, 1, 2}, {1, -1}), Cube({1, 1, 2}, {1, 1})}, true);
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(all->bounds[1].proved, ElementsAre(0));
  // 1 - 1 is exactly 0, but its terms are not.
  EXPECT_GT(all->bounds[0].expected[1], 1e-8);
  EXPECT_LT(all->bounds[0].proved[1], 1e-6);
}

TEST(CausalConvTest, KernelsThatDoNotFitAreRefused) {
  const auto refuses = [](const std::vector<Known>& known,
                          const char* message) {
    EXPECT_THAT(
        InferOf({kName}, known),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  refuses({{"float32[1, 2, 3]"}, {"float32[2, 1, 0]"}}, "kernels of 0 taps");
  refuses({{"float32[1, 2, 3]"}, {"float32[3, 1, 2]"}}, "input 1: is of shape");
  refuses({{"float32[1, 2, 3]"}, {"float32[2, 2, 2]"}}, "input 1: is of shape");
  refuses({{"float32[2, 3]"}, {"float32[2, 1, 2]"}}, "input 0: has rank 2");
}

}  // namespace
}  // namespace nodewise
