// What is named where a fault leaves nothing of what was computed: weights and
// slopes that are zeros, before a normalization, which makes a tensor of any
// input.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/contrib/align/align_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// So many that what is left of them can say something.
constexpr int64_t kChannels = 24;

struct Mistakes {
  float weights = 1;  // Factors of what was meant.
  float slopes = 1;
  std::string last = "LogSoftmax";  // What it became.
  // No mistake: the normalization is computed by nodes of their own.
  bool is_taken_apart = false;
};

NDArray Times(float factor, NDArray tensor) {
  for (int64_t i = 0; i < CountOf(tensor); ++i) tensor.As<float>()[i] *= factor;
  return tensor;
}

// Numbers of many sizes, whose last bits are as many.
NDArray Bias() {
  NDArray bias = Drawn("b", {kChannels});
  for (int i = 0; i < kChannels; ++i) {
    bias.As<float>()[i] = std::ldexp(bias.As<float>()[i], -i % 12);
  }
  return bias;
}

// (x - mean) / sqrt(variance + epsilon) * scale + shift.
ValueId AddNormalization(NetBuilder* n, ValueId x, bool is_taken_apart) {
  const NDArray scale = Drawn("scale", {kChannels});
  const NDArray shift = Drawn("shift", {kChannels});
  if (!is_taken_apart) {
    return n->Op("InstanceNormalization",
                 {x, n->Const("scale", scale), n->Const("shift", shift)}, {},
                 {"norm"}, "norm")[0];
  }
  const auto op = [n](const std::string& kind, std::vector<ValueId> inputs,
                      const std::string& name) {
    return n->Op(kind, inputs, {}, {name}, name)[0];
  };
  const auto column = [n](const std::string& name, const NDArray& numbers) {
    return n->Const(name, numbers.View({{kChannels, 1, 1}}, kFloat32).value());
  };
  const ValueId axes =
      n->Const("axes", MakeTensor<int64_t>({2}, {2, 3}, kInt64));
  const ValueId epsilon = n->Const("epsilon", MakeTensor<float>({}, {1e-5F}));
  // As compilers do: the mean of equal numbers is not quite that number then.
  const ValueId share = n->Const("share", MakeTensor<float>({}, {1.0F / 36}));
  const ValueId sum = op("ReduceSum", {x, axes}, "sum");
  const ValueId mean = op("Mul", {sum, share}, "mean");
  const ValueId centred = op("Sub", {x, mean}, "centred");
  const ValueId square = op("Mul", {centred, centred}, "square");
  const ValueId variance = op("ReduceMean", {square, axes}, "variance");
  const ValueId more = op("Add", {variance, epsilon}, "more");
  const ValueId deviation = op("Sqrt", {more}, "deviation");
  const ValueId divided = op("Div", {centred, deviation}, "divided");
  const ValueId scaled = op("Mul", {divided, column("scale", scale)}, "scaled");
  return op("Add", {scaled, column("shift", shift)}, "norm");
}

// A convolution that is bent and normalized, joined with another one.
Network Net(const Mistakes& mistakes = {}) {
  NetBuilder n;
  const std::vector<NamedAttr> pads = {
      {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  const ValueId x = n.In("x", {1, 4, 6, 6});
  const ValueId w =
      n.Const("w", Times(mistakes.weights, Drawn("w", {kChannels, 4, 3, 3})));
  const ValueId first =
      n.Op("Conv", {x, w, n.Const("b", Bias())}, pads, {"first"}, "first")[0];
  const ValueId slope = n.Const(
      "slope", Times(mistakes.slopes, Drawn("slope", {kChannels, 1, 1})));
  const ValueId bent = n.Op("PRelu", {first, slope}, {}, {"bent"}, "bend")[0];
  const ValueId norm = AddNormalization(&n, bent, mistakes.is_taken_apart);
  const ValueId swish = n.Op("HardSwish", {norm}, {}, {"swish"}, "swish")[0];
  const ValueId v = n.Const("v", Drawn("v", {4, 4, 1, 1}));
  const ValueId other = n.Op("Conv", {x, v}, {}, {"other"}, "other")[0];
  const ValueId join =
      n.Op("Concat", {swish, other}, {{"axis", 1}}, {"join"}, "join")[0];
  const ValueId u =
      n.Const("u", Times(0.02F, Drawn("u", {5, kChannels + 4, 3, 3})));
  const ValueId last = n.Op("Conv", {join, u}, pads, {"last"}, "last")[0];
  const ValueId pool =
      n.Op("GlobalAveragePool", {last}, {}, {"pool"}, "pool")[0];
  n.Out(n.Op(mistakes.last, {pool}, {{"axis", 1}}, {"y"}, "softmax"));
  return std::move(n.net);
}

Examined ExamineNet(const Mistakes& mistakes, const LowerOptions& options) {
  return ExamineBeside(Net(), Net(mistakes), {{"x", Drawn("x", {1, 4, 6, 6})}},
                       options);
}

TEST(VanishedValuesTest, SoundBuildsAccuseNoNode) {
  for (const bool is_taken_apart : {false, true}) {
    const Examined examined =
        ExamineNet({.is_taken_apart = is_taken_apart}, kPlain);
    EXPECT_THAT(examined.result.culprits, IsEmpty());
  }
}

// The differences from the mean are its last bits then, which look like numbers
// of a shorter type, so that any result that is made of them could be right.
TEST(VanishedValuesTest, WeightsThatAreZerosAreNamedBeforeANormalization) {
  for (const bool is_taken_apart : {false, true}) {
    const Examined examined =
        ExamineNet({.weights = 0, .is_taken_apart = is_taken_apart}, kPlain);
    ASSERT_EQ(examined.result.culprits.size(), 1U);
    EXPECT_EQ(examined.NodeOf(0), "first");
    EXPECT_THAT(examined.Operations(0), Contains("first"));
  }
}

TEST(VanishedValuesTest, SlopesThatAreZerosAreNotTheNodeBefore) {
  for (const LowerOptions& options : {LowerOptions{}, kPlain}) {
    for (const bool is_taken_apart : {false, true}) {
      const Examined examined =
          ExamineNet({.slopes = 0, .is_taken_apart = is_taken_apart}, options);
      ASSERT_EQ(examined.result.culprits.size(), 1U);
      EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
    }
  }
}

TEST(VanishedValuesTest, FaultsFurtherOnChangeNothingOfThat) {
  for (const bool is_taken_apart : {false, true}) {
    const Examined examined = ExamineNet(
        {.slopes = 0, .last = "Softmax", .is_taken_apart = is_taken_apart}, {});
    ASSERT_EQ(examined.result.culprits.size(), 2U);
    EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
    EXPECT_THAT(examined.Operations(1), ElementsAre("softmax"));
  }
}

}  // namespace
}  // namespace nodewise
