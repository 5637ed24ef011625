#include "nodewise/locate/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kSound = 1;

// A build of y = tanh(x) whose result is multiplied by a factor; 0 for one that
// crashes.
SeriesBuild BuildTimes(size_t number, float factor) {
  const auto load =
      [factor]() -> absl::StatusOr<std::shared_ptr<const GraphTarget>> {
    NetBuilder b;
    const ValueId x = b.In("x", {4});
    b.Out(b.Op("Tanh", {x}, {}, {"y"}, "bend"));
    SpoiledLibrary::Spoil spoil = Times(factor);
    if (factor == 0) {
      spoil = [](const DLTensor&) { (void)std::raise(SIGKILL); };
    }
    Lowered net = Lower(b.net, "net", kPlain).value();
    return GraphTarget::FromArtefact(
        "build",
        {std::move(net.graph),
         MakeRef<SpoiledLibrary>(ReferenceFunctions(), "tanh", spoil),
         {}},
        {kCpu});
  };
  return {"build " + std::to_string(number), load};
}

absl::StatusOr<SeriesResult> SearchBuilds(const std::vector<float>& factors) {
  std::vector<SeriesBuild> builds;
  for (const float factor : factors) {
    builds.push_back(BuildTimes(builds.size(), factor));
  }
  return FindFirstBad(builds, {{"x", Floats({0.5F, -1, 2, 0.25F})}});
}

TEST(SeriesTest, TheFirstBadBuildIsFoundWithFewQuestions) {
  std::vector<float> factors(33, kSound);
  for (size_t i = 19; i < factors.size(); ++i) factors[i] = 1.1F;
  const auto result = SearchBuilds(factors);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->first_bad, 19U);
  EXPECT_EQ(result->last_good, 18U);
  EXPECT_LE(result->answers.size(), 2U + 5U);
}

TEST(SeriesTest, BuildsWithinTheToleranceAreGood) {
  const auto result = SearchBuilds({kSound, 1.0000001F, kSound, 1.0000001F});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->first_bad, std::nullopt);
  EXPECT_EQ(result->answers.size(), 2U);
}

TEST(SeriesTest, BuildsThatCrashArePassedOver) {
  const auto result = SearchBuilds({kSound, kSound, 0, 1.1F, 1.1F});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->first_bad, 3U);
  EXPECT_EQ(result->last_good, 1U);
  EXPECT_THAT(result->skipped_between, ElementsAre(2));
  const auto skipped =
      std::find_if(result->answers.begin(), result->answers.end(),
                   [](const BuildAnswer& answer) { return answer.build == 2; });
  ASSERT_NE(skipped, result->answers.end());
  EXPECT_THAT(skipped->why, HasSubstr("SIGKILL"));
}

TEST(SeriesTest, AnEndThatCannotRunIsAnError) {
  EXPECT_THAT(SearchBuilds({kSound, 1.1F, 0}),
              FailsWith(absl::StatusCode::kAborted, HasSubstr("build 2: ")));
  EXPECT_THAT(SearchBuilds({kSound}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("the series has 1 build")));
}

}  // namespace
}  // namespace nodewise
