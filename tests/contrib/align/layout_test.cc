#include "nodewise/align/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the layout of those words, if it is among those that are tried.
std::optional<Layout> FindLayout(const std::vector<int64_t>& source,
                                 const std::vector<int64_t>& compiled,
                                 const std::string& text) {
  std::optional<Layout> found;
  VisitLayouts(source, compiled, [&](const Layout& layout) {
    if (layout.text == text) found = layout;
    return !found.has_value();
  });
  return found;
}

TEST(LayoutTest, SameShapeComesFirstInItsOwnOrder) {
  std::optional<Layout> first;
  VisitLayouts(std::vector<int64_t>{2, 3}, std::vector<int64_t>{2, 3},
               [&](const Layout& layout) {
                 first = layout;
                 return false;
               });
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->is_same_order());
  EXPECT_EQ(first->text, "");
  EXPECT_THAT(PlacesOf(*first), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(LayoutTest, TransposedTensorIsReadColumnByColumn) {
  const auto layout = FindLayout({2, 3}, {3, 2}, "sides in the order 1 0");
  ASSERT_TRUE(layout.has_value());
  EXPECT_THAT(PlacesOf(*layout), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(LayoutTest, ChannelsInBlocksComeLast) {
  // Four channels of two elements each, in blocks of two.
  const auto layout =
      FindLayout({1, 4, 2}, {1, 2, 2, 2}, "side 1 in blocks of 2");
  ASSERT_TRUE(layout.has_value());
  EXPECT_TRUE(layout->is_usual());
  EXPECT_THAT(PlacesOf(*layout), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(LayoutTest, LastBlockIsFilledUp) {
  const auto layout = FindLayout({1, 3, 2}, {1, 2, 2, 2},
                                 "side 1 in blocks of 2, filled up from 3");
  ASSERT_TRUE(layout.has_value());
  EXPECT_THAT(PlacesOf(*layout),
              ElementsAre(0, 2, 1, 3, 4, kPaddingPlace, 5, kPaddingPlace));
}

TEST(LayoutTest, WeightsMayHaveTwoSidesInBlocks) {
  std::vector<std::string> texts;
  VisitLayouts(std::vector<int64_t>{4, 4, 3, 3},
               std::vector<int64_t>{2, 2, 3, 3, 2, 2},
               [&](const Layout& layout) {
                 texts.push_back(layout.text);
                 return true;
               });
  EXPECT_THAT(
      texts, testing::Contains("side 1 in blocks of 2, side 0 in blocks of 2"));
}

TEST(LayoutTest, BroadcastSidesRepeatTheirElements) {
  const auto layout = FindLayout({2, 1}, {2, 3}, "repeated");
  ASSERT_TRUE(layout.has_value());
  EXPECT_THAT(PlacesOf(*layout), ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST(LayoutTest, OnePlaceIsThatOfTheList) {
  const std::vector<int64_t> source = {2, 5, 3};
  VisitLayouts(
      source, std::vector<int64_t>{2, 3, 3, 2}, [&](const Layout& layout) {
        const std::vector<int64_t> places = PlacesOf(layout);
        EXPECT_EQ(layout.count(), 36);
        for (size_t i = 0; i < places.size(); ++i) {
          EXPECT_EQ(PlaceOf(layout, static_cast<int64_t>(i)), places[i])
              << layout.text << ", element " << i;
        }
        return true;
      });
}

TEST(LayoutTest, NoOrderOfElementsIsTriedTwice) {
  std::vector<std::vector<int64_t>> seen;
  VisitLayouts(std::vector<int64_t>{4, 2, 2}, std::vector<int64_t>{2, 2, 2, 2},
               [&](const Layout& layout) {
                 std::vector<int64_t> places = PlacesOf(layout);
                 EXPECT_THAT(seen, testing::Not(testing::Contains(places)))
                     << layout.text;
                 seen.push_back(std::move(places));
                 return true;
               });
  EXPECT_GT(seen.size(), 6U);
}

TEST(LayoutTest, ShapesThatDoNotGoTogetherHaveNone) {
  VisitLayouts(std::vector<int64_t>{5}, std::vector<int64_t>{7},
               [](const Layout& layout) {
                 ADD_FAILURE() << layout.text;
                 return true;
               });
}

}  // namespace
}  // namespace nodewise
