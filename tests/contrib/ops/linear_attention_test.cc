#include <algorithm>
#include <cmath>

#include "nodewise/random/random.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

OpSetup Rule(const char* rule, int64_t heads = 1, int64_t kv_heads = 1) {
  return {"LinearAttention",
          27,
          {{"q_num_heads", heads},
           {"kv_num_heads", kv_heads},
           {"scale", 1.0f},
           {"update_rule", std::string(rule)}},
          2};
}
// One head, one batch: a step for each value, vectors of one element.
NDArray Steps(const Numbers& values) {
  return MakeTensor<float>({1, static_cast<int64_t>(values.size()), 1}, values);
}

TEST(LinearAttentionTest, EachRuleFollowsItsRecurrence) {
  const NDArray q = Steps({1, 1}), k = Steps({2, 3}), v = Steps({5, 7});
  const NDArray past = MakeTensor<float>({1, 1, 1, 1}, {10});
  const float half = std::log(0.5f);
  const NDArray decay = Steps({half, half}), beta = Steps({0.5f, 0.25f});
  const NDArray none;
  const auto run = [&](const char* rule, const NDArray& g, const NDArray& b) {
    return ElementsOf(Rule(rule), {q, k, v, past, g, b});
  };
  EXPECT_THAT(run("linear", none, none), ElementsAre(20, 41));
  EXPECT_THAT(run("gated", decay, none),
              Pointwise(FloatNear(1e-5f), Numbers{15, 28.5f}));
  // 10 + 0.5 * 2 * (5 - 20) = -5, and -5 + 0.25 * 3 * (7 + 15) = 11.5.
  EXPECT_THAT(run("delta", none, beta), ElementsAre(-5, 11.5f));
  // 5 + 0.5 * 2 * (5 - 10) = 0, and 0 + 0.25 * 3 * 7.
  EXPECT_THAT(run("gated_delta", decay, beta),
              Pointwise(FloatNear(1e-6f), Numbers{0, 5.25f}));
}

TEST(LinearAttentionTest, ThePresentStateContinuesWhereTheStepsEnd) {
  const auto all = EvaluateAll(
      Rule("linear"), {Steps({1, 1, 1}), Steps({1, 2, 3}), Steps({4, 5, 6})});
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(ValuesOf(all->outputs[1]), ElementsAre(32));
  EXPECT_EQ(all->outputs[1].shape().size(), 4);
}

TEST(LinearAttentionTest, QueriesShareTheStatesOfFewerHeads) {
  const auto wide = [](const Numbers& values) {
    return MakeTensor<float>({1, 1, static_cast<int64_t>(values.size())},
                             values);
  };
  EXPECT_THAT(ElementsOf(Rule("linear", 4, 2),
                         {wide({1, 2, 3, 4}), wide({1, 1}), wide({10, 100})}),
              ElementsAre(10, 20, 300, 400));
}

TEST(LinearAttentionTest, WithoutAScaleItIsThatOfTheKeys) {
  OpSetup usual = Rule("linear");
  usual.attrs.erase(usual.attrs.begin() + 2);
  const NDArray four = MakeTensor<float>({1, 1, 4}, {1, 1, 1, 1});
  EXPECT_THAT(ElementsOf(usual, {four, four, four}), ElementsAre(2, 2, 2, 2));
}

TEST(LinearAttentionTest, SidesThatAreNotKnownStayUnknown) {
  const OpSetup rule = Rule("linear", 4, 2);
  const auto infos = InferOf(
      rule,
      {{"float16[b, t, 12]"}, {"float16[b, t, ?]"}, {"float16[?, ?, 10]"}});
  ASSERT_THAT(infos, IsOk());
  EXPECT_EQ(ToString((*infos)[0].type), "float16[b, t, 20]");
  EXPECT_EQ(ToString((*infos)[1].type), "float16[b, 2, 3, 5]");
  EXPECT_EQ(InferredType(rule, {{"float16[...]"}, {"?[...]"}, {"?[...]"}}),
            "float16[?, ?, ?]");
}

TEST(LinearAttentionTest, TheStateHasATypeOfItsOwn) {
  const auto infos = InferOf(Rule("linear"), {{"float16[1, 2, 3]"},
                                              {"float16[1, 2, 3]"},
                                              {"float16[1, 2, 4]"},
                                              {"float32[1, 1, 3, 4]"}});
  ASSERT_THAT(infos, IsOk());
  EXPECT_EQ(ToString((*infos)[1].type), "float32[1, 1, 3, 4]");
}

TEST(LinearAttentionTest, GatesMustBeWhatTheRuleReads) {
  const NDArray x = Steps({1});
  EXPECT_THAT(EvaluateAll(Rule("gated"), {x, x, x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 4: (decay) is not given")));
  EXPECT_THAT(EvaluateAll(Rule("linear"), {x, x, x, NDArray(), NDArray(), x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 5: (beta) is given")));
}

TEST(LinearAttentionTest, SidesThatDoNotFitAreRefused) {
  const struct {
    OpSetup rule;
    std::vector<Known> known;
    const char* message;
  } cases[] = {
      {Rule("linear", 3, 2), {{"?[...]"}, {"?[...]"}, {"?[...]"}}, "is 3"},
      {Rule("linear", 2, 2),
       {{"float32[1, 2, 3]"}, {"?[...]"}, {"?[...]"}},
       "input 0: has vectors of 3"},
      {Rule("linear"),
       {{"float32[1, 2, 3]"}, {"float32[1, 2, 4]"}, {"?[...]"}},
       "input 1: is of shape"},
      {Rule("linear"),
       {{"float32[1, 2, 3]"}, {"?[...]"}, {"float16[1, 2, 3]"}},
       "input 2: is of type float16"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(
        InferOf(one.rule, one.known),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(one.message)));
  }
}

// The update rule in float32, summing from the left or from the right.
struct FloatKernel {
  bool decays;
  bool corrects;
  bool backwards;

  float Dot(const float* a, const Numbers& state, int64_t n, int64_t m,
            int64_t columns) const {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t d = backwards ? n - 1 - i : i;
      sum += a[d] * state[static_cast<size_t>(d * columns + m)];
    }
    return sum;
  }
  // One head; the operator's inputs, decay by key.
  Numbers Run(const std::vector<NDArray>& in, Numbers* state) const {
    const int64_t steps = in[0].shape()[1], n = in[0].shape()[2];
    const int64_t columns = in[2].shape()[2];
    state->assign(static_cast<size_t>(n * columns), 0);
    Numbers y;
    for (int64_t t = 0; t < steps; ++t) {
      const float* const k = in[1].As<float>() + t * n;
      for (size_t i = 0; decays && i < state->size(); ++i) {
        const auto d = static_cast<int64_t>(i) / columns;
        (*state)[i] *= std::exp(in[4].As<float>()[t * n + d]);
      }
      Numbers written;
      for (int64_t m = 0; m < columns; ++m) {
        const float v = in[2].As<float>()[t * columns + m];
        written.push_back(corrects ? in[5].As<float>()[t] *
                                         (v - Dot(k, *state, n, m, columns))
                                   : v);
      }
      for (size_t i = 0; i < state->size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        (*state)[i] +=
            k[at / columns] * written[static_cast<size_t>(at % columns)];
      }
      for (int64_t m = 0; m < columns; ++m) {
        y.push_back(Dot(in[0].As<float>() + t * n, *state, n, m, columns));
      }
    }
    return y;
  }
};

NDArray Draw(RandomSource& source, const std::vector<int64_t>& shape,
             double least, double most) {
  const NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (size_t i = 0; i < tensor.bytes() / sizeof(float); ++i) {
    const double part = (source.Symmetric() + 1) / 2;
    tensor.As<float>()[i] = static_cast<float>(least + part * (most - least));
  }
  return tensor;
}
void Normalize(const NDArray& keys) {
  const int64_t n = keys.shape()[2];
  for (int64_t t = 0; t < keys.shape()[1]; ++t) {
    float* const k = keys.As<float>() + t * n;
    double squares = 0;
    for (int64_t d = 0; d < n; ++d) squares += double{k[d]} * k[d];
    for (int64_t d = 0; d < n; ++d) {
      k[d] = static_cast<float>(k[d] / std::sqrt(squares));
    }
  }
}

// Returns how many elements are beyond a bound; `worst` becomes the largest
// share of the expected bound.
size_t Beyond(const Numbers& found, const NDArray& exact, const Bounds& bounds,
              double* worst) {
  size_t count = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(double{found[i]} - exact.As<float>()[i]);
    const bool is_kept =
        error <= bounds.proved[i] && error <= bounds.expected[i];
    count += is_kept ? 0 : 1;
    *worst = std::max(*worst, error / bounds.expected[i]);
  }
  return count;
}

TEST(LinearAttentionTest, BoundsHoldForKernelsThatGoStepByStep) {
  constexpr uint64_t kSeed = 20251121;
  RandomSource source(kSeed);
  double worst = 0;
  for (int i = 0; i < 400; ++i) {
    const int64_t steps = 1 + static_cast<int64_t>(source.Next() % 40);
    const int64_t n = 2 + static_cast<int64_t>(source.Next() % 30);
    const FloatKernel kernel{i % 2 == 1, i / 2 % 2 == 1, i / 4 % 2 == 1};
    std::vector<NDArray> in = {Draw(source, {1, steps, n}, -1, 1),
                               Draw(source, {1, steps, n}, -1, 1),
                               Draw(source, {1, steps, 3}, -2, 2), NDArray()};
    Normalize(in[1]);
    in.push_back(kernel.decays ? Draw(source, {1, steps, n}, -1, 0)
                               : NDArray());
    in.push_back(kernel.corrects ? Draw(source, {1, steps, 1}, 0, 1)
                                 : NDArray());
    const char* const rules[] = {"linear", "gated", "delta", "gated_delta"};
    const auto exact = EvaluateAll(
        Rule(rules[(kernel.decays ? 1 : 0) + (kernel.corrects ? 2 : 0)]), in,
        true);
    ASSERT_THAT(exact, IsOk());
    Numbers state;
    const Numbers y = kernel.Run(in, &state);
    ASSERT_EQ(Beyond(y, exact->outputs[0], exact->bounds[0], &worst), 0u)
        << "case " << i << " of seed " << kSeed;
    ASSERT_EQ(Beyond(state, exact->outputs[1], exact->bounds[1], &worst), 0u)
        << "case " << i << " of seed " << kSeed;
  }
  // If the bounds were too wide, they would find nothing.
  EXPECT_GT(worst, 0.03);
}

}  // namespace
}  // namespace nodewise
