#include "nodewise/align/value_locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nodewise/align/alignment.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/align/source_region.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/contrib/align/align_support.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// What a compiler may get wrong in Net(), and what it may do otherwise.
struct Mistakes {
  float slope = 0.2F;
  std::vector<int64_t> pads = {1, 1, 1, 1};
  bool swaps_parts = false;
  float weight = 1;  // A factor of the last weights.
  // No mistake: the bias is added, and the softmax computed, by nodes of their
  // own.
  bool is_taken_apart = false;
};

ValueId AddConv(NetBuilder* b, ValueId x, const Mistakes& mistakes) {
  const ValueId w = b->Const("w", Drawn("w", {4, 4, 3, 3}));
  const NDArray bias = Drawn("bias", {4});
  const std::vector<NamedAttr> attrs = {{"pads", mistakes.pads}};
  if (!mistakes.is_taken_apart) {
    return b->Op("Conv", {x, w, b->Const("bias", bias)}, attrs, {"c"},
                 "conv")[0];
  }
  const ValueId product = b->Op("Conv", {x, w}, attrs, {"c0"}, "conv")[0];
  const NDArray column = bias.View({{4, 1, 1}}, kFloat32).value();
  return b->Op("Add", {product, b->Const("bias", column)}, {}, {"c"},
               "add_bias")[0];
}

ValueId AddSoftmax(NetBuilder* b, ValueId x, const Mistakes& mistakes) {
  if (!mistakes.is_taken_apart) {
    return b->Op("Softmax", {x}, {}, {"y"}, "last")[0];
  }
  const ValueId raised = b->Op("Exp", {x}, {}, {"raised"}, "raise")[0];
  const ValueId axes = b->Const("axes", MakeTensor<int64_t>({1}, {1}, kInt64));
  const ValueId sum = b->Op("ReduceSum", {raised, axes}, {}, {"sum"}, "sum")[0];
  return b->Op("Div", {raised, sum}, {}, {"y"}, "last")[0];
}

// Conv and LeakyRelu, a MaxPool beside, both joined, a product, and Softmax.
Network Net(const Mistakes& mistakes = {}) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 6, 6});
  const ValueId c = AddConv(&b, x, mistakes);
  const ValueId r =
      b.Op("LeakyRelu", {c}, {{"alpha", mistakes.slope}}, {"r"}, "bend")[0];
  const ValueId p = b.Op("MaxPool", {x},
                         {{"kernel_shape", std::vector<int64_t>{3, 3}},
                          {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
                         {"p"}, "pool")[0];
  const std::vector<ValueId> parts =
      mistakes.swaps_parts ? std::vector{p, r} : std::vector{r, p};
  const ValueId j = b.Op("Concat", parts, {{"axis", 1}}, {"j"}, "join")[0];
  const ValueId f = b.Op("Flatten", {j}, {}, {"f"}, "flatten")[0];
  NDArray weights = Drawn("v", {288, 5});
  for (int64_t i = 0; i < CountOf(weights); ++i) {
    weights.As<float>()[i] *= 0.1F * mistakes.weight;
  }
  const ValueId v = b.Const("v", std::move(weights));
  const ValueId m = b.Op("MatMul", {f, v}, {}, {"m"}, "product")[0];
  b.Out({AddSoftmax(&b, m, mistakes)});
  return std::move(b.net);
}

Examined Examine(const Network& compiled, const LowerOptions& options = {},
                 const SearchLimits& limits = {}) {
  return ExamineBeside(Net(), compiled, {{"x", Drawn("x", {1, 4, 6, 6})}},
                       options, limits);
}

TEST(ValueLocateTest, SoundGraphsAccuseNoNodeFusedOrNot) {
  for (const LowerOptions& options : {LowerOptions{}, kPlain}) {
    const Examined examined = Examine(Net(), options);
    EXPECT_THAT(examined.result.culprits, IsEmpty());
    const GraphIndex& index = examined.target->index();
    EXPECT_EQ(examined.alignment.CountMatched(index),
              examined.alignment.CountVarying(index.graph()));
  }
}

TEST(ValueLocateTest, AttributeWithAnotherValueIsNamedWithIt) {
  const Examined examined = Examine(Net({.slope = 0.35F}));
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
  EXPECT_THAT(examined.Explanations(0), Contains("alpha 0.35 instead of 0.2"));
}

TEST(ValueLocateTest, PaddingAtTheOtherEndIsNamed) {
  const Examined examined = Examine(Net({.pads = {2, 1, 0, 1}}));
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.Operations(0).front(), "conv");
  EXPECT_THAT(examined.Explanations(0),
              Contains("pads [2, 1, 0, 1] instead of [1, 1, 1, 1]"));
}

TEST(ValueLocateTest, PartsInTheWrongOrderAreNamed) {
  const Examined examined = Examine(Net({.swaps_parts = true}));
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("join"));
  EXPECT_THAT(examined.Explanations(0), Contains("operands 0 and 1 swapped"));
}

TEST(ValueLocateTest, WeightOffByAThousandthIsNamed) {
  const Examined examined = Examine(Net({.weight = 1.001F}));
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("product"));
  EXPECT_THAT(examined.Explanations(0), Contains(HasSubstr("1.001")));
}

TEST(ValueLocateTest, AllOfSeveralFaultsAreNamed) {
  const Examined examined = Examine(
      Net({.slope = 0.35F, .swaps_parts = true, .weight = 1.1F}), kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 3U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("bend"));
  EXPECT_THAT(examined.Operations(1), ElementsAre("join"));
  EXPECT_THAT(examined.Operations(2), ElementsAre("product"));
}

// Conv, LeakyRelu and a mean. The sizes of the tensors between depend on
// `pads`.
Network Chain(const std::vector<int64_t>& pads, float slope) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 6, 6});
  const ValueId w = b.Const("w", Drawn("w", {4, 4, 3, 3}));
  const ValueId c = b.Op("Conv", {x, w}, {{"pads", pads}}, {"c"}, "conv")[0];
  const ValueId r =
      b.Op("LeakyRelu", {c}, {{"alpha", slope}}, {"r"}, "bend")[0];
  b.Out(b.Op("GlobalAveragePool", {r}, {}, {"y"}, "mean"));
  return std::move(b.net);
}

TEST(ValueLocateTest, FaultRightBehindATensorOfTheWrongSizeIsNamedToo) {
  const Examined examined =
      ExamineBeside(Chain({1, 1, 1, 1}, 0.2F), Chain({1, 1, 1, 0}, 0.35F),
                    {{"x", Drawn("x", {1, 4, 6, 6})}}, kPlain);
  ASSERT_EQ(examined.result.culprits.size(), 2U);
  EXPECT_THAT(examined.Operations(0), ElementsAre("conv"));
  EXPECT_THAT(examined.Explanations(0),
              Contains("pads [1, 1, 1, 0] instead of [1, 1, 1, 1]"));
  EXPECT_THAT(examined.Operations(1), ElementsAre("bend"));
  EXPECT_THAT(examined.Explanations(1), Contains("alpha 0.35 instead of 0.2"));
}

// Conv, its bias added by a node of its own, sides exchanged, and Tanh; two
// outputs.
struct Wiring {
  float bias = 1;  // A factor of it.
  std::vector<int64_t> perm = {0, 1, 3, 2};
  bool swaps_outputs = false;
};
Network Wired(const Wiring& wiring = {}) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 4, 6, 6});
  const ValueId w = b.Const("w", Drawn("w", {4, 4, 3, 3}));
  const ValueId c =
      b.Op("Conv", {x, w}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, {"c"},
           "conv")[0];
  NDArray bias = Drawn("bias", {4, 1, 1});
  for (int64_t i = 0; i < 4; ++i) bias.As<float>()[i] *= wiring.bias;
  const ValueId a =
      b.Op("Add", {c, b.Const("bias", std::move(bias))}, {}, {"a"}, "add")[0];
  const ValueId t =
      b.Op("Transpose", {a}, {{"perm", wiring.perm}}, {"t"}, "turn")[0];
  const ValueId y = b.Op("Tanh", {t}, {}, {"y"}, "bend")[0];
  const ValueId z = b.Op("Neg", {y}, {}, {"z"}, "negate")[0];
  b.Out(wiring.swaps_outputs ? std::vector{z, y} : std::vector{y, z});
  return std::move(b.net);
}

Examined ExamineWired(const Wiring& wiring) {
  return ExamineBeside(Wired(), Wired(wiring),
                       {{"x", Drawn("x", {1, 4, 6, 6})}}, kPlain);
}

TEST(ValueLocateTest, NodeThatDoesNothingIsNamedAndNotItsReader) {
  const Examined examined = ExamineWired({.bias = 0});
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "add");
  EXPECT_EQ(examined.Operations(0).front(), "add");
}

TEST(ValueLocateTest, SidesExchangedOtherwiseAreNotALayout) {
  const Examined examined = ExamineWired({.perm = {0, 1, 2, 3}});
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_EQ(examined.NodeOf(0), "turn");
  EXPECT_EQ(examined.Operations(0).front(), "turn");
}

TEST(ValueLocateTest, OutputsInTheWrongOrderAreWrong) {
  EXPECT_THAT(ExamineWired({}).result.culprits, IsEmpty());
  EXPECT_FALSE(ExamineWired({.swaps_outputs = true}).result.culprits.empty());
}

TEST(ValueLocateTest, TheSearchForWhatWasMeantEndsWhenItsTimeIsOver) {
  static int64_t now;
  now = 0;
  const auto clock = [] { return now += 1'000'000'000; };
  const Examined examined = Examine(Net({.slope = 0.35F, .weight = 1.1F}), {},
                                    {.most_guess_ns = 0, .clock = clock});
  ASSERT_FALSE(examined.result.culprits.empty());
  EXPECT_TRUE(examined.result.culprits[0].gave_up);
}

TEST(ValueLocateTest, NoMoreChangesAreTriedThanMayBe) {
  const Examined all = Examine(Net({.slope = 0.35F}));
  EXPECT_FALSE(all.result.culprits[0].gave_up);
  EXPECT_LE(all.result.culprits[0].edits_tried, 300U);
  const Examined few = Examine(Net({.slope = 0.35F}), {}, {.most_edits = 3});
  ASSERT_EQ(few.result.culprits.size(), 1U);
  EXPECT_TRUE(few.result.culprits[0].gave_up);
  EXPECT_LE(few.result.culprits[0].edits_tried, 3U);
}

TEST(ValueLocateTest, TheSearchForAChangeEndsWhenItsTimeIsOver) {
  static int64_t now;
  now = 0;
  // Each look at the clock takes a second.
  const auto clock = [] { return now += 1'000'000'000; };
  const Examined examined =
      Examine(Net({.slope = 0.35F}), {}, {.clock = clock});
  ASSERT_EQ(examined.result.culprits.size(), 1U);
  EXPECT_TRUE(examined.result.culprits[0].gave_up);
  EXPECT_LE(examined.result.culprits[0].edits_tried, 10U);
}

TEST(ValueLocateTest, NodesBehindAFaultAreProvedHealthy) {
  const Examined examined = Examine(Net({.slope = 0.35F}), kPlain);
  const GraphIndex& index = examined.target->index();
  const EntryId last = index.FindEntry("last").value();
  EXPECT_EQ(examined.result.entries[Index(last)].state, EntryState::kHealthy);
}

TEST(ValueLocateTest, WhatANodeReceivesMakesAndPassesOnIsKnown) {
  const Examined examined = Examine(Net({.slope = 0.35F}), kPlain);
  constexpr double kRounding = 1e-5;
  const LocatedEntry& broken = examined.Located("bend");
  EXPECT_LT(broken.received, kRounding);
  EXPECT_GT(broken.distance, 0.01);
  EXPECT_NEAR(broken.passed_on, broken.distance, kRounding);
  // Right on what it has read, and yet it passes on what was wrong there.
  const LocatedEntry& behind = examined.Located("product");
  EXPECT_LT(behind.distance, kRounding);
  EXPECT_NEAR(behind.received, broken.passed_on, kRounding);
  EXPECT_GT(behind.passed_on, 0.001);
  EXPECT_DOUBLE_EQ(behind.gain(), behind.passed_on / behind.received);
}

// What the network makes of what each node has read in the first run.
void ExpectRegionsMakeWhatNodesMade(const Examined& examined,
                                    size_t least_nodes) {
  const GraphIndex& index = examined.target->index();
  size_t judged = 0;
  for (const AlignedEntry& aligned : examined.alignment.entries) {
    const EntryId entry = aligned.entry;
    if (!aligned.varies || !index.graph().IsFunction(index.NodeOf(entry)) ||
        examined.result.entries[Index(entry)].tensors.empty()) {
      continue;
    }
    SCOPED_TRACE(index.KeyOf(entry));
    const CompiledPart part = FindPart(index, examined.result, entry).value();
    std::vector<PartInput> inputs;
    std::vector<NDArray> tensors;
    for (const EntryId read : part.reads) {
      inputs.push_back({read, "read" + std::to_string(inputs.size())});
      tensors.push_back(examined.Made(read));
    }
    const auto region = RegionOfPart(index, *examined.network, examined.result,
                                     entry, inputs, AllOperators());
    ASSERT_THAT(region, IsOk());
    const std::vector<NDArray> made =
        Interpret(region->region.network, tensors).value();
    EXPECT_THAT(ValuesOf(made[0]),
                testing::Pointwise(testing::FloatNear(1e-5F),
                                   ValuesOf(examined.Made(entry))));
    ++judged;
  }
  EXPECT_GE(judged, least_nodes);
}

TEST(SourceRegionTest, WhatTheNetworkMakesOfWhatANodeReadIsWhatItMakes) {
  ExpectRegionsMakeWhatNodesMade(Examine(Net()), 3);
  ExpectRegionsMakeWhatNodesMade(Examine(Net(), kPlain), 7);
}

TEST(SourceRegionTest, AnOperationThatWasTakenApartIsAPartOfSeveralNodes) {
  const Examined examined = Examine(Net({.is_taken_apart = true}), kPlain);
  ExpectRegionsMakeWhatNodesMade(examined, 7);
  const GraphIndex& index = examined.target->index();
  const auto part =
      FindPart(index, examined.result, index.FindEntry("last").value());
  ASSERT_THAT(part, IsOk());
  std::vector<std::string> names;
  for (const NodeId node : part->nodes) names.push_back(index.KeyOf(node));
  EXPECT_THAT(names, ElementsAre("raise", "sum", "last"));
}

TEST(SourceRegionTest, AnEntryWhoseTensorIsNotKnownHasNoRegion) {
  const Examined examined = Examine(Net({.is_taken_apart = true}), kPlain);
  const EntryId entry = examined.target->index().FindEntry("raise").value();
  EXPECT_THAT(
      RegionOfPart(examined.target->index(), *examined.network, examined.result,
                   entry, {}, AllOperators()),
      FailsWith(absl::StatusCode::kNotFound, HasSubstr("it is not known")));
}

class TakenApart : public testing::Test {
 protected:
  const AlignedEntry& Entry(const std::string& name) const {
    const GraphIndex& index = examined_.target->index();
    return examined_.alignment.entries[Index(index.FindEntry(name).value())];
  }

  const Examined examined_ = Examine(Net({.is_taken_apart = true}), kPlain);
};

TEST_F(TakenApart, AnOperationWithoutItsBiasIsKnownAgain) {
  const AlignedEntry& product = Entry("conv");
  ASSERT_EQ(product.matches.size(), 1U);
  EXPECT_EQ(examined_.network->value(product.matches[0].value).name, "c");
  EXPECT_EQ(product.matches[0].without_input, 2U);
  const AlignedEntry& whole = Entry("add_bias");
  ASSERT_FALSE(whole.matches.empty());
  EXPECT_EQ(whole.matches[0].without_input, std::nullopt);
}

TEST_F(TakenApart, NodesWithoutATensorAreInsideOfOperations) {
  for (const char* const name : {"raise", "sum"}) {
    const AlignedEntry& entry = Entry(name);
    EXPECT_THAT(entry.matches, IsEmpty());
    ASSERT_EQ(entry.between.size(), 1U) << name;
    EXPECT_EQ(examined_.network->operation(entry.between[0]).name, "last");
  }
  EXPECT_EQ(examined_.alignment.CountBetween(examined_.target->index(), 1), 2U);
}

TEST_F(TakenApart, NoNodeIsAccused) {
  EXPECT_THAT(examined_.result.culprits, IsEmpty());
}

TEST(AlignmentTest, NothingRecordedIsAnError) {
  const Examined examined = Examine(Net());
  EXPECT_THAT(Align(examined.target->index(), *examined.network, {}),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("nothing was recorded")));
}

TEST(SimilarInputsTest, FloatsStayInTheirRangeAndIntegersAmongTheirs) {
  const NDArray floats = Drawn("f", {64});
  const NDArray numbers = MakeTensor<int64_t>({3}, {4, 9, 9}, kInt64);
  const auto drawn = DrawSimilar({{"f", floats}, {"n", numbers}}, 3);
  ASSERT_THAT(drawn, IsOk());
  EXPECT_FALSE(HaveSameBits((*drawn)[0].tensor, floats));
  for (int i = 0; i < 64; ++i) {
    EXPECT_LE(std::fabs((*drawn)[0].tensor.As<float>()[i]), 1);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT((*drawn)[1].tensor.As<int64_t>()[i], testing::AnyOf(4, 9));
  }
}

}  // namespace
}  // namespace nodewise
