#include "nodewise/compare/pairing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<UnpairedTensor> Named(const std::vector<std::string>& names) {
  std::vector<UnpairedTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, "float32"});
  return tensors;
}

// "0-1 spelling", ...
std::vector<std::string> PairsOf(const std::vector<std::string>& expected,
                                 const std::vector<std::string>& actual) {
  std::vector<std::string> texts;
  for (const FuzzyPair& pair : PairFuzzily(Named(expected), Named(actual))) {
    texts.push_back(std::to_string(pair.expected) + "-" +
                    std::to_string(pair.actual) + " " +
                    std::string(NameOf(pair.by)));
  }
  return texts;
}

TEST(PairingTest, SpellingDoesNotMatter) {
  EXPECT_THAT(
      PairsOf({"/layer1/Conv_1/output_0", "Add"}, {"add:0", "layer1.conv_1"}),
      ElementsAre("0-1 spelling", "1-0 spelling"));
}

TEST(PairingTest, FunctionsOfOneKindArePairedInTheirOrder) {
  EXPECT_THAT(
      PairsOf({"fused_conv2d_add", "fused_conv2d_add_1", "fused_pool"},
              {"fused_conv2d_add_3", "fused_pool_2", "fused_conv2d_add_7"}),
      ElementsAre("0-0 order", "1-2 order", "2-1 order"));
}

TEST(PairingTest, OtherCountsOfOneKindAreNotPaired) {
  EXPECT_THAT(PairsOf({"fused_a_1", "fused_a_2"}, {"fused_a_3"}),
              ElementsAre());
}

TEST(PairingTest, NamesThatShareMostWordsArePaired) {
  EXPECT_THAT(PairsOf({"encoder_layer_attention_softmax"},
                      {"decoder_x", "layer_attention_softmax_encoder_out"}),
              ElementsAre("0-1 words"));
}

TEST(PairingTest, NamesThatFitTwiceAreNotPaired) {
  EXPECT_THAT(PairsOf({"block_conv_x"}, {"block_conv_y", "block_conv_z"}),
              ElementsAre());
}

TEST(PairingTest, OtherTypesAreNotPaired) {
  EXPECT_TRUE(PairFuzzily(std::vector<UnpairedTensor>{{"a_x", "float32 (1,)"}},
                          std::vector<UnpairedTensor>{{"a.x", "float32 (2,)"}})
                  .empty());
}

TEST(PairingTest, AMapHasTwoNamesOnALine) {
  const auto names =
      ParseNameMap("# ours theirs\n\na b\r\nwith blank\tc d\n", "m.txt");
  ASSERT_THAT(names, IsOk());
  EXPECT_EQ(*names, (NameMap{{"a", "b"}, {"with blank", "c d"}}));
}

TEST(PairingTest, FaultsOfAMapAreLocated) {
  EXPECT_THAT(ParseNameMap("a b\nc\n", "m.txt"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("m.txt:2: found \"c\", expected two names")));
  EXPECT_THAT(
      ParseNameMap("a b c\n", "m.txt"),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("m.txt:1")));
  EXPECT_THAT(ParseNameMap("a b\nc b\n", "m.txt"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("m.txt:2: a name of \"c b\" stands there a "
                                  "second time")));
}

}  // namespace
}  // namespace nodewise
