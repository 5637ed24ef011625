#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "nodewise/locate/locate_target.h"
#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Doubles what is larger than 0.5; a 1 crashes.
void SpoilLargeOnes(const DLTensor& made) {
  auto* const data = static_cast<float*>(made.data);
  for (int64_t i = 0; i < made.shape[0]; ++i) {
    if (data[i] > 0.999F) (void)std::raise(SIGSEGV);
    if (data[i] > 0.5F) data[i] *= 2;
  }
}

// h = tanh(x), y = -h, in which tanh is spoiled.
std::shared_ptr<const GraphTarget> SpoiledTanh() {
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  const ValueId h = b.Op("Tanh", {x}, {}, {"h"}, "bend")[0];
  b.Out(b.Op("Neg", {h}, {}, {"y"}, "last"));
  Lowered net = Lower(b.net, "net", kPlain).value();
  const Ref<Library> sound = BuiltInFunctions(AllOperators());
  return GraphTarget::FromArtefact(
             "net",
             {std::move(net.graph),
              MakeRef<SpoiledLibrary>(sound, "tanh", &SpoilLargeOnes),
              {}},
             {kCpu})
      .value();
}

InputSample SampleOf(const std::string& name, std::vector<float> x) {
  return {name,
          [x = std::move(x)]() -> absl::StatusOr<std::vector<NamedTensor>> {
            return std::vector<NamedTensor>{{"x", Floats(x)}};
          }};
}

InputSample Unreadable(const std::string& name) {
  return {name, []() -> absl::StatusOr<std::vector<NamedTensor>> {
            return absl::DataLossError("it is cut");
          }};
}

absl::StatusOr<SamplesResult> LocateOn(const std::vector<InputSample>& samples,
                                       size_t most_located = 3) {
  SamplesOptions options;
  options.most_located = most_located;
  return LocateSamplesInTarget({SpoiledTanh()}, samples, AllOperators(),
                               {.repeats = 1, .checks_storage = false},
                               options);
}

std::vector<size_t> RankingOf(const SamplesResult& result) {
  std::vector<size_t> numbers;
  for (const RankedSample& ranked : result.ranked) {
    numbers.push_back(ranked.sample);
  }
  return numbers;
}

const std::vector<float> kHarmless = {0.1F, -0.2F, 0.3F, -2};
const std::vector<float> kOneWrong = {0.1F, -0.2F, 1, 0.3F};
const std::vector<float> kAllWrong = {0.7F, 0.8F, 1, 1.5F};

TEST(SamplesTest, TheWorstAreExaminedAndAFaultOfSomeInputsIsFound) {
  const auto result =
      LocateOn({SampleOf("a", kHarmless), SampleOf("b", kOneWrong),
                SampleOf("c", kHarmless), SampleOf("d", kAllWrong)},
               2);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(RankingOf(*result), ElementsAre(3, 1, 0, 2));
  EXPECT_EQ(result->num_located(), 2U);
  EXPECT_TRUE(result->ranked[1].is_wrong);
  EXPECT_FALSE(result->ranked[2].is_wrong);
  ASSERT_EQ(result->recurring.size(), 1U);
  EXPECT_EQ(result->recurring[0].node, "bend");
  EXPECT_EQ(result->recurring[0].kind, NodeVerdict::kBroken);
  EXPECT_THAT(result->recurring[0].samples, ElementsAre(3, 1));
}

TEST(SamplesTest, SamplesOnWhichAllIsRightAccuseNoNode) {
  const auto result =
      LocateOn({SampleOf("a", kHarmless), SampleOf("b", kHarmless)});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->num_located(), 2U);
  EXPECT_TRUE(result->recurring.empty());
}

TEST(SamplesTest, WhatCannotBeReadIsListedAndTheOthersAreJudged) {
  const auto result = LocateOn(
      {Unreadable("a"), SampleOf("b", kOneWrong), SampleOf("c", {1, 2})});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(RankingOf(*result), ElementsAre(1));
  ASSERT_EQ(result->failed.size(), 2U);
  EXPECT_EQ(result->failed[0].sample, 0U);
  EXPECT_THAT(result->failed[0].why,
              FailsWith(absl::StatusCode::kDataLoss, HasSubstr("it is cut")));
  EXPECT_EQ(result->failed[1].sample, 2U);
  EXPECT_THAT(result->failed[1].why,
              FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
  EXPECT_EQ(result->recurring.size(), 1U);
}

TEST(SamplesTest, ACrashIsWorseThanAnyError) {
  const auto result = LocateOn(
      {SampleOf("a", kAllWrong), SampleOf("b", {0.1F, 9, 0.1F, 0.1F})});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(RankingOf(*result), ElementsAre(1, 0));
  EXPECT_THAT(result->ranked[0].why_no_outputs, HasSubstr("SIGSEGV"));
  std::map<NodeVerdict, size_t> found;
  for (const RecurringVerdict& verdict : result->recurring) {
    EXPECT_EQ(verdict.node, "bend");
    found[verdict.kind] = verdict.samples.size();
  }
  EXPECT_EQ(found[NodeVerdict::kCrashes], 1U);
  EXPECT_EQ(found[NodeVerdict::kBroken], 1U);
}

TEST(SamplesTest, NoSampleIsAnError) {
  EXPECT_THAT(LocateOn({}), FailsWith(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("there are no samples")));
}

}  // namespace
}  // namespace nodewise
