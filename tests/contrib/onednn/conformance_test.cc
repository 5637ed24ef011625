// Random cases of every operator against the operator itself, judged by its
// own error bounds.

#include <limits>
#include <set>

#include "tests/contrib/onednn/samples.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

const std::vector<OperatorSamples>& AllSamples() {
  static const auto* const all = [] {
    auto* const list = new std::vector<OperatorSamples>();
    for (const auto& part : {FloatSamples(), QuantizedSamples()}) {
      list->insert(list->end(), part.begin(), part.end());
    }
    return list;
  }();
  return *all;
}

class ConformanceTest : public testing::TestWithParam<size_t> {
 protected:
  const OperatorSamples& samples() const { return AllSamples()[GetParam()]; }
  // The case of a seed. To repeat one, give the seed to this.
  CallCase Drawn(int seed) const {
    RandomSource random(static_cast<uint64_t>(seed), samples().name);
    return samples().draw(random);
  }

 private:
  // OpenMP's threads spin while they wait, for which they starve where others
  // compute too.
  const OneDnnThreads one_{1};
};

TEST_P(ConformanceTest, KernelsAreWithinTheBounds) {
  int supported = 0;
  std::string refusals;
  for (int seed = 0; seed < NumCases(25, 500); ++seed) {
    const CallCase made = Drawn(seed);
    const Support support = OneDnnSupports(made.call);
    if (!support.can) {
      EXPECT_FALSE(support.why_not.empty());
      refusals += "\n  seed " + std::to_string(seed) + ": " + support.why_not;
      const auto refused = MakeOneDnnKernel(made.call);
      EXPECT_THAT(refused, FailsWith(absl::StatusCode::kUnimplemented,
                                     testing::HasSubstr(support.why_not)));
      continue;
    }
    ++supported;
    EXPECT_EQ(FaultOf(made), "") << samples().name << ", seed " << seed;
  }
  EXPECT_GE(100 * supported, samples().least_percent * NumCases(25, 500))
      << samples().name << refusals;
}

// A NaN, or an infinity, in any place of any input.
TEST_P(ConformanceTest, WhatIsNotANumberIsNotHidden) {
  for (int seed = 0; seed < NumCases(25, 500); ++seed) {
    CallCase made = Drawn(seed);
    if (!OneDnnSupports(made.call).can) continue;
    RandomSource random(static_cast<uint64_t>(seed), "bad numbers");
    const auto input = static_cast<size_t>(
        random.Between(0, static_cast<int64_t>(made.inputs.size()) - 1));
    NDArray& tensor = made.inputs[input];
    if (!tensor.defined() || !(tensor.dtype() == kFloat32)) continue;
    if (made.call.inputs[input].constant.defined()) continue;
    const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()};
    tensor.As<float>()[random.Between(0, CountOf(tensor) - 1)] =
        bad[random.Between(0, 2)];
    EXPECT_EQ(FaultOf(made), "") << samples().name << ", seed " << seed;
  }
}

TEST_P(ConformanceTest, TwoThreadsStayWithinTheBounds) {
  const OneDnnThreads two(2);
  for (int seed = 0; seed < 2; ++seed) {
    const CallCase made = Drawn(seed);
    if (!OneDnnSupports(made.call).can) continue;
    EXPECT_EQ(FaultOf(made), "") << samples().name << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(AllOperators, ConformanceTest,
                         testing::Range<size_t>(0, AllSamples().size()),
                         [](const auto& info) {
                           return AllSamples()[info.param].name +
                                  std::to_string(info.param);
                         });

TEST(OneDnnOperatorsTest, EveryOperatorHasSamples) {
  std::set<std::string_view> sampled;
  for (const OperatorSamples& samples : AllSamples()) {
    sampled.insert(samples.name);
  }
  for (const std::string_view name : OneDnnOperators()) {
    EXPECT_EQ(sampled.count(name), 1) << name;
  }
}

}  // namespace
}  // namespace nodewise
