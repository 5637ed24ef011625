#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "nodewise/compare/compare.h"
#include "nodewise/random/random.h"
#include "nodewise/support/machine.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

// Far more than pairing takes, and less than comparing all names with all.
constexpr int64_t kMostNs = (kSanitized ? 200 : 20) * int64_t{1'000'000'000};

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

// Pairs by words as the page says, each name with each.
std::vector<std::string> PairedOneByOne(
    const std::vector<std::vector<int>>& expected,
    const std::vector<std::vector<int>>& actual) {
  std::vector<bool> is_expected_paired(expected.size());
  std::vector<bool> is_actual_paired(actual.size());
  const auto most_alike = [](const std::vector<int>& words, const auto& others,
                             const std::vector<bool>& is_paired) {
    double best = 0;
    int found = -1;
    for (size_t i = 0; i < others.size(); ++i) {
      if (is_paired[i]) continue;
      std::vector<int> both;
      std::set_intersection(words.begin(), words.end(), others[i].begin(),
                            others[i].end(), std::back_inserter(both));
      const double likeness =
          2 * static_cast<double>(both.size()) /
          static_cast<double>(words.size() + others[i].size());
      if (likeness == best) found = -1;
      if (likeness > best) found = static_cast<int>(i);
      best = std::max(best, likeness);
    }
    return best < 0.6 ? -1 : found;
  };
  std::vector<std::string> texts;
  for (size_t i = 0; i < expected.size(); ++i) {
    const int there = most_alike(expected[i], actual, is_actual_paired);
    if (there < 0) continue;
    if (most_alike(actual[static_cast<size_t>(there)], expected,
                   is_expected_paired) != static_cast<int>(i)) {
      continue;
    }
    is_expected_paired[i] = true;
    is_actual_paired[static_cast<size_t>(there)] = true;
    texts.push_back(std::to_string(i) + "-" + std::to_string(there) + " words");
  }
  return texts;
}

TEST(PairingTest, WordsPairWhatTryingAllNamesWouldPair) {
  constexpr int kWords = 12;
  RandomSource random(7, "names");
  const auto draw = [&] {
    std::vector<std::vector<int>> names(60);
    for (std::vector<int>& name : names) {
      const auto count = random.Between(2, 6);
      for (int64_t w = 0; w < count; ++w) {
        name.push_back(static_cast<int>(random.Between(0, kWords - 1)));
      }
      std::sort(name.begin(), name.end());
    }
    return names;
  };
  // No two have one spelling, or a kind in common, which would pair them first.
  const auto texts = [](const std::vector<std::vector<int>>& names, char side) {
    std::vector<std::string> all;
    for (const std::vector<int>& name : names) {
      std::string text(1, side);
      for (const int word : name) {
        text += "_";
        text += static_cast<char>('a' + word);
      }
      all.push_back(text);
    }
    return all;
  };
  for (int round = 0; round < 20; ++round) {
    auto expected = draw(), actual = draw();
    const auto found = PairsOf(texts(expected, 'y'), texts(actual, 'z'));
    for (std::vector<int>& name : expected) name.push_back(kWords);
    for (std::vector<int>& name : actual) name.push_back(kWords + 1);
    EXPECT_EQ(found, PairedOneByOne(expected, actual));
  }
}

TEST(PairingTest, ManyNamesArePairedInLittleTime) {
  std::vector<std::string> expected, actual;
  for (int i = 0; i < 30'000; ++i) {
    const std::string number = std::to_string(i * 7919);
    expected.push_back("model_layer" + number + "_attention_query_weight");
    actual.push_back("weight_query_layer" + number + "_attention_of_model");
  }
  const int64_t start_ns = ClockNanoseconds();
  EXPECT_EQ(PairsOf(expected, actual).size(), expected.size());
  EXPECT_LT(ClockNanoseconds() - start_ns, kMostNs);
}

TEST(PairingTest, NamesOfTheSameWordsDoNotTakeForEver) {
  std::vector<std::string> expected, actual;
  const int names = kSanitized ? 2'000 : 20'000;
  for (int i = 0; i < names; ++i) {
    std::string name = "a_b_c_d_e_f";
    for (int bit = 0; bit < 15; ++bit) {
      if ((i >> bit & 1) != 0) name += std::string("_") + char('g' + bit);
    }
    expected.push_back(name + "_y");
    actual.push_back(name + "_z");
  }
  const int64_t start_ns = ClockNanoseconds();
  (void)PairsOf(expected, actual);
  EXPECT_LT(ClockNanoseconds() - start_ns, kMostNs);
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
