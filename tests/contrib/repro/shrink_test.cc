#include "nodewise/repro/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>

#include "tests/contrib/repro/repro_support.h"

namespace nodewise {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Not;

// y = x + 1, spoiled as a test wants.
absl::StatusOr<ReproCase> SpoiledSum(Spoil spoil, NDArray x) {
  NetBuilder b;
  const absl::Span<const int64_t> shape = x.shape();
  const ValueId in = b.In("x", Shape(shape.begin(), shape.end()));
  const ValueId other = b.Const("w", Floats({1}));
  b.Out({b.Op("Add", {in, other}, {}, {"y"}, "sum")[0]});
  const Lowered net = Lower(b.net, "net").value();
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<ReproCase> cases,
      CasesOf(net,
              MakeRef<SpoilingLibrary>(ReferenceFunctions(), "add",
                                       std::move(spoil)),
              {"sum"}, {{"x", std::move(x)}}));
  return std::move(cases[0]);
}

float* Out(absl::Span<const DLTensor* const> tensors) {
  return static_cast<float*>(tensors[2]->data);
}
const float* In(absl::Span<const DLTensor* const> tensors) {
  return static_cast<const float*>(tensors[0]->data);
}
size_t CountOut(absl::Span<const DLTensor* const> tensors) {
  return TensorBytes(*tensors[2]).value() / sizeof(float);
}

NDArray Steps(const std::vector<int64_t>& shape) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (size_t i = 0; i < tensor.bytes() / sizeof(float); ++i) {
    tensor.As<float>()[i] = 0.3F * static_cast<float>(i) - 2.7F;
  }
  return tensor;
}

TEST(ShrinkTest, AFaultInEveryElementLeavesZeros) {
  auto made = SpoiledSum(
      [](absl::Span<const DLTensor* const> t) {
        for (size_t i = 0; i < CountOut(t); ++i) Out(t)[i] += 5;
      },
      Steps({4, 6}));
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  EXPECT_TRUE(made->is_shrunk());
  EXPECT_NE(made->FindWrong(), nullptr);
  EXPECT_THAT(ValuesOf(made->inputs[0].tensor), Each(0.0F));
  EXPECT_TRUE(HaveSameBits(made->inputs[0].original, Steps({4, 6})));
  // Parameters stay.
  EXPECT_THAT(ValuesOf(made->inputs[1].tensor), ElementsAre(1.0F));
  EXPECT_FALSE(made->inputs[1].original.defined());
}

TEST(ShrinkTest, WhatTheFaultNeedsStays) {
  auto made = SpoiledSum(
      [](absl::Span<const DLTensor* const> t) {
        for (size_t i = 0; i < CountOut(t); ++i) {
          if (In(t)[i] > 3.2F) Out(t)[i] += 1;
        }
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  ASSERT_NE(made->FindWrong(), nullptr);
  size_t non_zero = 0;
  for (const float x : ValuesOf(made->inputs[0].tensor)) {
    if (x == 0) continue;
    ++non_zero;
    EXPECT_GT(x, 3.2F);
    EXPECT_EQ(x, std::round(x));
  }
  EXPECT_EQ(non_zero, 1U);
}

TEST(ShrinkTest, AFailureThatIsNotFiniteStaysSo) {
  // Wrong everywhere, but NaN only where the input is above 4.
  auto made = SpoiledSum(
      [](absl::Span<const DLTensor* const> t) {
        for (size_t i = 0; i < CountOut(t); ++i) {
          Out(t)[i] += In(t)[i] > 4 ? NAN : 1;
        }
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  ASSERT_NE(made->FindWrong(), nullptr);
  EXPECT_GT(made->FindWrong()->comparison->metrics.nan_mismatches, 0U);
  EXPECT_THAT(ValuesOf(made->inputs[0].tensor), Not(Each(0.0F)));
}

TEST(ShrinkTest, ACrashStaysTheSameCrash) {
  // It is not in its place yet while the case is made.
  const auto may_crash = std::make_shared<bool>(false);
  auto made = SpoiledSum(
      [may_crash](absl::Span<const DLTensor* const> t) {
        if (!*may_crash) return;
        for (size_t i = 0; i < CountOut(t); ++i) {
          if (In(t)[i] > 3.2F) (void)std::raise(SIGFPE);
        }
        (void)std::raise(SIGILL);
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  *may_crash = true;
  made->may_run = false;
  made->failure = NodeFailure{NodeFailure::Kind::kCrash, "sum",
                              "crashed with SIGFPE at address 0x10"};
  CheckFailsAlone(&*made);
  EXPECT_EQ(made->fails_alone, true);
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  EXPECT_TRUE(made->is_shrunk());
  // Without the last of these it would be another crash.
  const std::vector<float> x = ValuesOf(made->inputs[0].tensor);
  EXPECT_EQ(std::count_if(x.begin(), x.end(),
                          [](float value) { return value > 3.2F; }),
            1);
  EXPECT_EQ(std::count(x.begin(), x.end(), 0.0F), 23);

  made->failure->what = "crashed with SIGSEGV at address 0x10";
  CheckFailsAlone(&*made);
  EXPECT_EQ(made->fails_alone, false);
}

TEST(ShrinkTest, ItIsTheSameEveryTime) {
  std::vector<std::vector<float>> found;
  for (int i = 0; i < 2; ++i) {
    auto made = SpoiledSum(
        [](absl::Span<const DLTensor* const> t) {
          if (In(t)[0] < 0) Out(t)[0] += 1;
        },
        Steps({24}));
    ASSERT_THAT(made, IsOk());
    ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
    found.push_back(ValuesOf(made->inputs[0].tensor));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(ShrinkTest, RunsAreCountedAndBounded) {
  auto runs = std::make_shared<uint64_t>(0);
  auto made = SpoiledSum(
      [runs](absl::Span<const DLTensor* const> t) {
        ++*runs;
        for (size_t i = 0; i < CountOut(t); ++i) {
          if (In(t)[i] > 0.4F) Out(t)[i] += In(t)[i];
        }
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  *runs = 0;
  ASSERT_THAT(ShrinkCase({.most_runs = 5}, &*made), IsOk());
  // One more proves what has come out.
  EXPECT_LE(*runs, 6U);
  EXPECT_EQ(made->shrink_runs, *runs);
}

TEST(ShrinkTest, WhatCostsMuchRunsLessOften) {
  auto made = SpoiledSum(
      [](absl::Span<const DLTensor* const> t) {
        for (size_t i = 0; i < CountOut(t); ++i) {
          if (In(t)[i] > 0.4F) Out(t)[i] += In(t)[i];
        }
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  // About 2500 for each run.
  ASSERT_THAT(ShrinkCase({.most_cost = 1e4}, &*made), IsOk());
  EXPECT_LE(made->shrink_runs, 6U);
}

TEST(ShrinkTest, WhatIsWrongOnceAndNotAgainStaysAsItIs) {
  auto runs = std::make_shared<uint64_t>(0);
  auto made = SpoiledSum(
      [runs](absl::Span<const DLTensor* const> t) {
        if (++*runs == 2) Out(t)[0] += 1;  // When the case is judged.
      },
      Steps({24}));
  ASSERT_THAT(made, IsOk());
  ASSERT_NE(made->FindWrong(), nullptr);
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  EXPECT_FALSE(made->is_shrunk());
  EXPECT_TRUE(HaveSameBits(made->inputs[0].tensor, Steps({24})));
}

TEST(ShrinkTest, ARightNodeIsNotTouched) {
  auto made = SpoiledSum([](absl::Span<const DLTensor* const>) {}, Steps({6}));
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  EXPECT_EQ(made->shrink_runs, 0U);
}

TEST(ShrinkTest, BuiltInFunctionsAreBoundToSmallerShapes) {
  auto made =
      SpoiledSum([](absl::Span<const DLTensor* const> t) { Out(t)[0] += 5; },
                 Steps({8, 6, 4}));
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(ShrinkCase({}, &*made), IsOk());
  EXPECT_THAT(made->inputs[0].tensor.shape(), ElementsAre(1, 1, 1));
  EXPECT_THAT(made->outputs[0].reference.shape(), ElementsAre(1, 1, 1));
  EXPECT_THAT(made->inputs[0].original.shape(), ElementsAre(8, 6, 4));
  EXPECT_EQ(made->graph.entries[0].shape, (std::vector<int64_t>{1, 1, 1}));
}

TEST(ShrinkTest, ShapesThatTheOperatorRefusesAreLeft) {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId w = b.Const("w", Steps({6, 3}));
  b.Out({b.Op("MatMul", {x, w}, {}, {"y"}, "product")[0]});
  const auto library = MakeRef<SpoilingLibrary>(
      ReferenceFunctions(), "matmul",
      [](absl::Span<const DLTensor* const> t) { Out(t)[0] += 5; });
  auto cases = CasesOf(Lower(b.net, "net").value(), library, {"product"},
                       {{"x", Steps({4, 6})}});
  ASSERT_THAT(cases, IsOk());
  ReproCase& product = (*cases)[0];
  ASSERT_THAT(ShrinkCase({}, &product), IsOk());
  EXPECT_THAT(product.inputs[0].tensor.shape(), ElementsAre(1, 6));
  EXPECT_THAT(product.inputs[1].tensor.shape(), ElementsAre(6, 3));
}

}  // namespace
}  // namespace nodewise
