#include "nodewise/repro/anonymous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "contrib/repro/drawn_tensor.h"
#include "contrib/repro/hidden_network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/repro/write_repro.h"
#include "tests/contrib/repro/repro_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

absl::StatusOr<NDArray> Drawn(const NDArray& tensor,
                              SpecialPlaces places = SpecialPlaces::kDrawn) {
  RandomSource source(7);
  return DrawnLike(tensor, places, source);
}

std::vector<float> OddNumbers(size_t count) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) {
    numbers.push_back(0.5F + 0.0137F * static_cast<float>(i));
  }
  return numbers;
}

TEST(DrawnTensorTest, NoNumberIsLeftAndTheRangeIs) {
  const std::vector<float> given = OddNumbers(200);
  const auto drawn = Drawn(Floats(given));
  ASSERT_THAT(drawn, IsOk());
  const std::set<float> known(given.begin(), given.end());
  for (const float x : ValuesOf(*drawn)) EXPECT_EQ(known.count(x), 0U) << x;
  EXPECT_THAT(ValuesOf(*drawn), Each(AllOf(Ge(0.47F), Le(3.4F))));
}

TEST(DrawnTensorTest, ZerosAndSpecialNumbersStayAsMany) {
  std::vector<float> given = OddNumbers(40);
  std::fill(given.begin(), given.begin() + 10, 0.0F);
  given[12] = given[13] = NAN;
  given[14] = -INFINITY;
  const auto anywhere = Drawn(Floats(given));
  const auto in_place = Drawn(Floats(given), SpecialPlaces::kKept);
  ASSERT_THAT(anywhere, IsOk());
  ASSERT_THAT(in_place, IsOk());
  for (const NDArray& drawn : {*anywhere, *in_place}) {
    const std::vector<float> x = ValuesOf(drawn);
    EXPECT_EQ(std::count(x.begin(), x.end(), 0.0F), 10);
    EXPECT_EQ(std::count(x.begin(), x.end(), -INFINITY), 1);
    EXPECT_EQ(std::count_if(x.begin(), x.end(),
                            [](float v) { return std::isnan(v); }),
              2);
  }
  EXPECT_TRUE(std::isnan(ValuesOf(*in_place)[12]));
  EXPECT_NE(ValuesOf(*anywhere)[0], ValuesOf(*in_place)[0]);
}

TEST(DrawnTensorTest, WholeNumbersStayWholeAndInRange) {
  std::vector<float> given;
  for (int i = 0; i < 60; ++i) given.push_back(static_cast<float>(3 + i % 7));
  const auto drawn = Drawn(Floats(given));
  ASSERT_THAT(drawn, IsOk());
  for (const float x : ValuesOf(*drawn)) EXPECT_EQ(x, std::round(x));
  EXPECT_THAT(ValuesOf(*drawn), Each(AllOf(Ge(3.0F), Le(9.0F))));
}

TEST(DrawnTensorTest, WhatHoldsTheSameNumbersStillDoes) {
  std::vector<float> given = OddNumbers(24);
  std::vector<float> turned(given.rbegin(), given.rend());
  turned.push_back(0);  // As a layout in blocks pads it.
  EXPECT_EQ(HashOfNumbers(Floats(given)).value(),
            HashOfNumbers(Floats(turned)).value());
  const std::vector<float> a = ValuesOf(*WithOtherNumbers(Floats(given)));
  const std::vector<float> b = ValuesOf(*WithOtherNumbers(Floats(turned)));
  EXPECT_EQ(b[24], 0.0F);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.rbegin() + 1));
  for (size_t i = 0; i < given.size(); ++i) EXPECT_NE(a[i], given[i]);
  given[3] += 1;
  EXPECT_NE(HashOfNumbers(Floats(given)).value(),
            HashOfNumbers(Floats(turned)).value());
}

// y = x + w, spoiled as a test wants; every name has a word in it.
absl::StatusOr<ReproCase> HushedSum(Spoil spoil, size_t zeros = 0) {
  NetBuilder b;
  const ValueId x = b.In("hushed_x", {24});
  std::vector<float> weights = OddNumbers(24);
  std::fill_n(weights.begin(), zeros, 0.0F);
  const ValueId w = b.Const("hushed_w", Floats(weights));
  b.Out({b.Op("Add", {x, w}, {}, {"hushed_y"}, "hushed_sum")[0]});
  const Lowered net = Lower(b.net, "hushed_net").value();
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<ReproCase> cases,
      CasesOf(net,
              MakeRef<SpoilingLibrary>(ReferenceFunctions(), "add",
                                       std::move(spoil)),
              {"hushed_sum"}, {{"hushed_x", Floats(OddNumbers(24))}}));
  return std::move(cases[0]);
}

void AddOne(absl::Span<const DLTensor* const> tensors) {
  static_cast<float*>(tensors[2]->data)[0] += 1;
}

TEST(AnonymousTest, AllIsDrawnThatTheFailureDoesNotNeed) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
  EXPECT_NE(made->FindWrong(), nullptr);
  for (const ReproInput& input : made->inputs) {
    EXPECT_TRUE(input.is_drawn);
    EXPECT_THAT(ValuesOf(input.tensor), Not(Contains(OddNumbers(24)[5])));
  }
}

TEST(AnonymousTest, WhatTheFailureNeedsStaysAndSaysWhy) {
  auto made = HushedSum([](absl::Span<const DLTensor* const> tensors) {
    if (static_cast<float*>(tensors[1]->data)[2] == OddNumbers(3)[2]) {
      AddOne(tensors);
    }
  });
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
  EXPECT_NE(made->FindWrong(), nullptr);
  EXPECT_TRUE(made->inputs[0].is_drawn);
  EXPECT_FALSE(made->inputs[1].is_drawn);
  EXPECT_THAT(made->inputs[1].why_not_drawn, HasSubstr("not show the same"));
  EXPECT_EQ(ValuesOf(made->inputs[1].tensor), OddNumbers(24));
}

TEST(AnonymousTest, WhatIsWrongOnceAndNotAgainKeepsItsNumbers) {
  auto runs = std::make_shared<int>(0);
  auto made = HushedSum([runs](absl::Span<const DLTensor* const> tensors) {
    if (++*runs == 2) AddOne(tensors);
  });
  ASSERT_THAT(made, IsOk());
  ASSERT_NE(made->FindWrong(), nullptr);
  ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
  EXPECT_EQ(ValuesOf(made->inputs[0].tensor), OddNumbers(24));
  EXPECT_THAT(made->inputs[0].why_not_drawn, HasSubstr("in every run"));
}

TEST(AnonymousTest, RunsAreBounded) {
  auto runs = std::make_shared<uint64_t>(0);
  auto made = HushedSum([runs](absl::Span<const DLTensor* const> tensors) {
    ++*runs;
    const auto* const x = static_cast<float*>(tensors[0]->data);
    const auto* const w = static_cast<float*>(tensors[1]->data);
    if (x[1] == w[1]) AddOne(tensors);
  });
  ASSERT_THAT(made, IsOk());
  *runs = 0;
  DrawOptions options;
  options.bounds.most_runs = 3;
  ASSERT_THAT(DrawTensors(options, AllOperators(), &*made), IsOk());
  EXPECT_LE(*runs, 3U);
  EXPECT_EQ(made->anonymity->runs, *runs);
  EXPECT_THAT(made->inputs[1].why_not_drawn, HasSubstr("no more runs"));
}

TEST(AnonymousTest, ASearchThatAccusesNoLongerDecides) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  DrawOptions options;
  options.accuses = [](const ReproCase& other) -> absl::StatusOr<bool> {
    return !other.inputs[1].is_drawn;
  };
  ASSERT_THAT(DrawTensors(options, AllOperators(), &*made), IsOk());
  EXPECT_TRUE(made->inputs[0].is_drawn);
  EXPECT_FALSE(made->inputs[1].is_drawn);
}

TEST(AnonymousTest, WhatOnlyASearchSeesStillHasTheOutputsOfItsInputs) {
  auto made = HushedSum([](absl::Span<const DLTensor* const>) {});
  ASSERT_THAT(made, IsOk());
  made->harms_others = true;
  DrawOptions options;
  options.accuses = [](const ReproCase&) -> absl::StatusOr<bool> {
    return true;
  };
  ASSERT_THAT(DrawTensors(options, AllOperators(), &*made), IsOk());
  ASSERT_TRUE(made->inputs[0].is_drawn);
  const std::vector<float> x = ValuesOf(made->inputs[0].tensor);
  const std::vector<float> w = ValuesOf(made->inputs[1].tensor);
  for (const NDArray& y :
       {made->outputs[0].reference, made->outputs[0].candidate}) {
    EXPECT_EQ(ValuesOf(y)[7], x[7] + w[7]);
  }
}

TEST(AnonymousTest, ZerosThatMustLieWhereTheyDidAreListed) {
  auto made = HushedSum(
      [](absl::Span<const DLTensor* const> tensors) {
        const auto* const w = static_cast<float*>(tensors[1]->data);
        const bool has_pattern =
            std::all_of(w, w + 8, [](float x) { return x == 0; });
        if (has_pattern) AddOne(tensors);
      },
      /*zeros=*/8);
  ASSERT_THAT(made, IsOk());
  ASSERT_NE(made->FindWrong(), nullptr);
  ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
  ASSERT_TRUE(made->inputs[1].is_drawn);
  ASSERT_THAT(HideNames({}, AllOperators(), &*made), IsOk());
  EXPECT_THAT(made->anonymity->kept,
              Contains(AllOf(Field(&KeptPart::kind, "places"),
                             Field(&KeptPart::name, "input_B_add"))));
}

TEST(AnonymousTest, WhoKnowsHowNumbersAreDrawnCannotComputeThemBack) {
  std::vector<float> found[2];
  for (const float scale : {1.0F, 2.0F}) {
    auto made = HushedSum(&AddOne);
    ASSERT_THAT(made, IsOk());
    std::vector<float> weights = OddNumbers(24);
    for (float& weight : weights) weight *= scale;
    made->inputs[1].tensor = Floats(weights);
    ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
    found[scale == 1.0F ? 0 : 1] = ValuesOf(made->inputs[1].tensor);
  }
  // From one stream each would be exactly twice the other.
  EXPECT_NE(found[1][5], 2 * found[0][5]);
}

TEST(AnonymousTest, ItIsTheSameEveryTime) {
  std::vector<std::vector<float>> found;
  for (int i = 0; i < 2; ++i) {
    auto made = HushedSum(&AddOne);
    ASSERT_THAT(made, IsOk());
    ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
    found.push_back(ValuesOf(made->inputs[1].tensor));
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST(AnonymousTest, NoNameIsLeft) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(HiddenName(*made, AllOperators()), "add");
  ASSERT_THAT(WriteGraph(made->graph), HasSubstr("hushed"));
  made->reason = "hushed_sum is off";
  ASSERT_THAT(HideNames({}, AllOperators(), &*made), IsOk());
  EXPECT_EQ(made->node, "add");
  EXPECT_THAT(WriteGraph(made->graph), Not(HasSubstr("hushed")));
  EXPECT_THAT(NetworkToText(made->region->network.data()),
              Not(HasSubstr("hushed")));
  EXPECT_EQ(made->inputs[1].name, "input_B_add");
  EXPECT_EQ(made->reason, "");
  EXPECT_NE(made->FindWrong(), nullptr);
}

TEST(AnonymousTest, WhatStaysIsListed) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  // Nothing has been drawn.
  ASSERT_THAT(HideNames({}, AllOperators(), &*made), IsOk());
  EXPECT_THAT(made->anonymity->kept,
              ElementsAre(Field(&KeptPart::kind, "description"),
                          Field(&KeptPart::name, "input_A_add"),
                          Field(&KeptPart::name, "input_B_add")));
}

TEST(AnonymousTest, ACaseThatHasItsNamesIsNotWritten) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  ASSERT_THAT(DrawTensors({}, AllOperators(), &*made), IsOk());
  const std::string folder = testing::TempDir() + "/nodewise_named_repro";
  std::filesystem::remove_all(folder);
  EXPECT_THAT(WriteRepro(*made, folder),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("expected HideNames() first")));
}

TEST(AnonymousTest, DomainsThatNoOperationNeedsAreGone) {
  auto made = HushedSum([](absl::Span<const DLTensor* const>) {});
  ASSERT_THAT(made, IsOk());
  ReproCase& sum = *made;
  ASSERT_THAT(sum.region->network.SetOpset("hushed.domain", 3), IsOk());
  sum.graph.nodes.back().attrs = AttributesOf(*sum.region);
  ASSERT_THAT(HideNames({}, AllOperators(), &sum), IsOk());
  EXPECT_THAT(WriteGraph(sum.graph), Not(HasSubstr("hushed")));
}

TEST(NetworkHiderTest, ASideHasOneOtherNameEverywhere) {
  Network network("hushed");
  const TensorType type(kFloat32, {Dim::Named("hushed_side"), 2});
  const ValueId x = network.AddInput("hushed_x", type).value();
  const ValueId y = network.AddInput("hushed_y", type).value();
  ASSERT_THAT(network.SetOutputs({x, y}), IsOk());
  const auto hidden = NetworkHider().Hidden(network, "net", {"x", "y"});
  ASSERT_THAT(hidden, IsOk());
  EXPECT_THAT(NetworkToText(hidden->data()), Not(HasSubstr("hushed")));
  EXPECT_EQ(ToString(hidden->value(hidden->inputs()[0]).type),
            "float32[d1, 2]");
  EXPECT_EQ(hidden->value(hidden->inputs()[0]).type,
            hidden->value(hidden->inputs()[1]).type);
}

TEST(NetworkHiderTest, WhereOperationsAreFromIsGone) {
  auto made = HushedSum(&AddOne);
  ASSERT_THAT(made, IsOk());
  NetworkData data = made->region->network.data();
  Origin origin;
  origin.notes.emplace_back("namespace",
                            std::make_shared<const std::string>("hushed/net"));
  for (auto& operation : data.operations) {
    operation->origin = std::make_shared<const Origin>(origin);
  }
  const auto hidden = NetworkHider().Hidden(
      Network::FromData(std::move(data)).value(), "sum", {"x", "w"});
  ASSERT_THAT(hidden, IsOk());
  for (const OperationId id : hidden->order()) {
    EXPECT_EQ(hidden->operation(id).origin, nullptr);
    EXPECT_EQ(hidden->operation(id).name, "add_1");
  }
}

}  // namespace
}  // namespace nodewise
