#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

TEST(TextTableTest, TextThatFitsIsNotCut) {
  EXPECT_EQ(CutInMiddle("conv", 4), "conv");
}

TEST(TextTableTest, TextIsCutInTheMiddleToTheWidth) {
  EXPECT_EQ(CutInMiddle("fused_conv2d_1", 10), "fuse...d_1");
  EXPECT_EQ(CutInMiddle("fused_conv2d_1", 3), "...");
}

TEST(TextTableTest, CharacterOfSeveralBytesIsNotTorn) {
  EXPECT_EQ(CutInMiddle("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 5),
            "\u00e9...\u00e9");
}

TEST(TextTableTest, LinesFitTheWidthThatIsGiven) {
  TextTable table;
  table.AddRow({std::string(50, 'a'), "float32 (1, 3)"});
  table.AddRow({"short", "int8 ()"});
  EXPECT_EQ(table.ToString(4, 0, 40),
            "    aaaaaaaaa...aaaaaaaa  float32 (1, 3)\n"
            "    short                 int8 ()\n");
  EXPECT_EQ(table.ToString(0, 1, 0), std::string(50, 'a') +
                                         "  float32 (1, 3)\n"
                                         "... 1 more\n");
}

TEST(TextTableTest, ColumnsThatFitKeepTheirWidths) {
  std::vector<size_t> widths = {40, 20};
  FitColumns(62, &widths);
  EXPECT_THAT(widths, ElementsAre(40, 20));
}

TEST(TextTableTest, WidestColumnIsNarrowedFirst) {
  std::vector<size_t> widths = {40, 20, 5};
  FitColumns(59, &widths);
  EXPECT_THAT(widths, ElementsAre(30, 20, 5));
}

TEST(TextTableTest, ColumnIsNeverTooNarrowToTellNamesApart) {
  std::vector<size_t> widths = {40, 40};
  FitColumns(10, &widths);
  EXPECT_THAT(widths, ElementsAre(16, 16));
}

}  // namespace
}  // namespace nodewise
