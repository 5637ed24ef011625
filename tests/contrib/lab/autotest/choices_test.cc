#include "nodewise/autotest/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contrib/lab/autotest/draw/shrink_case.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

using Values = std::vector<uint64_t>;

TEST(ChoicesTest, NumbersAreWithinTheirLimit) {
  Choices choices(RandomSource(7));
  Values drawn;
  for (int i = 0; i < 100; ++i) drawn.push_back(choices.UpTo(5));
  EXPECT_THAT(drawn, Each(AllOf(Ge(0u), Le(5u))));
  EXPECT_THAT(drawn, AllOf(Contains(0u), Contains(5u)));
}

TEST(ChoicesTest, WhatWasMadeIsPlayedBack) {
  Choices first(RandomSource(7));
  for (const uint64_t most : {9u, 0u, 1000u}) first.UpTo(most);
  const uint64_t bits = first.Bits();
  Choices second(ValuesOf(first.made()));
  for (const uint64_t most : {9u, 0u, 1000u}) second.UpTo(most);
  EXPECT_EQ(second.Bits(), bits);
  EXPECT_EQ(ValuesOf(second.made()), ValuesOf(first.made()));
}

TEST(ChoicesTest, PlaybackCutsNumbersAndEndsWithZeros) {
  Choices choices(Values{9, 2});
  EXPECT_EQ(choices.UpTo(4), 4u);
  EXPECT_EQ(choices.UpTo(4), 2u);
  EXPECT_EQ(choices.UpTo(4), 0u);
}

TEST(ChoicesTest, InnerGroupsComeFirstAndEmptyOnesNever) {
  Choices choices(RandomSource(1));
  {
    const Choices::Group outer(&choices);
    choices.UpTo(1);
    { const Choices::Group empty(&choices); }
    const Choices::Group inner(&choices);
    choices.UpTo(1);
    choices.UpTo(1);
  }
  ASSERT_THAT(choices.groups(), SizeIs(2));
  EXPECT_EQ(choices.groups()[0].begin, 1u);
  EXPECT_EQ(choices.groups()[0].end, 3u);
  EXPECT_EQ(choices.groups()[1].begin, 0u);
  EXPECT_EQ(choices.groups()[1].end, 3u);
}

TEST(ChoicesTest, SequencesWithoutAnEndAreToldApart) {
  Choices choices(RandomSource(1));
  for (size_t i = 0; i < Choices::kMost; ++i) choices.UpTo(1);
  EXPECT_FALSE(choices.is_exhausted());
  EXPECT_EQ(choices.UpTo(1), 0u);
  EXPECT_TRUE(choices.is_exhausted());
}

TEST(SimplerChoicesTest, PartsAreLeftOutAndNumbersMadeSmaller) {
  const Choice made[] = {{6, 9}, {0, 9}, {3, 9}};
  const ChoiceSpan groups[] = {{1, 3}};
  const std::vector<Values> simpler = SimplerSequences(made, groups, 1000);
  ASSERT_FALSE(simpler.empty());
  EXPECT_THAT(simpler[0], ElementsAre(0, 0, 0));
  EXPECT_THAT(simpler, Contains(ElementsAre(6)));
  EXPECT_THAT(simpler, Contains(ElementsAre(6, 0, 2)));
  EXPECT_THAT(simpler, Contains(ElementsAre(3, 0, 3)));
  EXPECT_THAT(simpler, Not(Contains(ElementsAre(6, 0, 3))));
  EXPECT_THAT(SimplerSequences(made, groups, 2), SizeIs(2));
}

TEST(SimplerChoicesTest, ZerosHaveNothingSimplerBesideThem) {
  const Choice made[] = {{0, 9}};
  EXPECT_THAT(SimplerSequences(made, {}, 1000), ElementsAre(ElementsAre()));
}

TEST(SimplerChoicesTest, ShorterIsSimplerThanSmaller) {
  const uint64_t one[] = {9};
  const uint64_t two[] = {0, 1};
  const uint64_t other[] = {0, 2};
  EXPECT_TRUE(IsSimpler(one, two));
  EXPECT_TRUE(IsSimpler(two, other));
  EXPECT_FALSE(IsSimpler(other, other));
}

}  // namespace
}  // namespace nodewise
