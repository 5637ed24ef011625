#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Numbers 2, 3 and the pairs 5 6, 6 7, in places 3, 0, 1 and 2.
OpSetup Counts(int64_t shortest, int64_t longest, int64_t skips,
               const char* mode = "TF") {
  return {"TfIdfVectorizer",
          9,
          {{"min_gram_length", shortest},
           {"max_gram_length", longest},
           {"max_skip_count", skips},
           {"mode", std::string(mode)},
           {"ngram_counts", Ints{0, 2}},
           {"ngram_indexes", Ints{3, 0, 1, 2}},
           {"pool_int64s", Ints{2, 3, 5, 6, 6, 7}}}};
}

TEST(TfIdfVectorizerTest, CountsNgramsOfTheLengthsThatAreAsked) {
  const NDArray x = Longs({2, 5, 6, 7, 2, 3, 5, 6});
  EXPECT_THAT(ElementsOf(Counts(1, 2, 0), {x}), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(ElementsOf(Counts(1, 1, 0), {x}), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(ElementsOf(Counts(2, 2, 0), {x}), ElementsAre(0, 2, 1, 0));
}

TEST(TfIdfVectorizerTest, SkippingFindsPairsFurtherApartAndNumbersOnce) {
  const NDArray x = Longs({5, 2, 6, 6});
  EXPECT_THAT(ElementsOf(Counts(1, 2, 0), {x}), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(ElementsOf(Counts(1, 2, 1), {x}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(ElementsOf(Counts(1, 2, INT64_MAX), {x}),
              ElementsAre(0, 2, 0, 1));
}

TEST(TfIdfVectorizerTest, EachRowIsCountedForItself) {
  const auto x = MakeTensor<int32_t>({2, 2}, {5, 6, 3, 3});
  const auto y = EvaluateOne(Counts(1, 2, 0), {x});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 4));
  EXPECT_THAT(ValuesOf(*y), ElementsAre(0, 1, 0, 0, 2, 0, 0, 0));
}

TEST(TfIdfVectorizerTest, WeightsAreThoseOfTheNgrams) {
  const NDArray x = Longs({2, 2, 3});
  for (const auto& [mode, first, last] : {std::tuple{"TF", 1.0f, 2.0f},
                                          {"IDF", 10.0f, 0.5f},
                                          {"TFIDF", 10.0f, 1.0f}}) {
    OpSetup counts = Counts(1, 2, 0, mode);
    counts.attrs.push_back({"weights", std::vector<float>{0.5f, 10, 1, 1}});
    EXPECT_THAT(ElementsOf(counts, {x}), ElementsAre(first, 0, 0, last))
        << mode;
  }
}

TEST(TfIdfVectorizerTest, RowsOfNothingHaveNoNgrams) {
  EXPECT_THAT(ElementsOf(Counts(1, 2, 3), {Longs({})}),
              ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(InferredType(Counts(1, 2, 3), {{"int32[n, ?]"}}), "float32[n, 4]");
  EXPECT_EQ(InferredType(Counts(1, 2, 3), {{"int32[...]"}}), "float32[...]");
}

TEST(TfIdfVectorizerTest, BoundsOfCountsAreZero) {
  const auto all = EvaluateAll(Counts(1, 2, 0), {Longs({2})}, true);
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(all->bounds[0].proved, ElementsAre(0, 0, 0, 0));
}

TEST(TfIdfVectorizerTest, StringsAreRefusedByName) {
  OpSetup counts = Counts(1, 2, 0);
  counts.attrs.back() = {"pool_strings", std::vector<std::string>{"a"}};
  EXPECT_THAT(InferOf(counts, {{"int64[3]"}}),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("attribute pool_strings")));
}

TEST(TfIdfVectorizerTest, PoolsThatAreNotNgramsAreRefused) {
  const struct {
    size_t attribute;
    NamedAttr value;
  } cases[] = {
      {4, {"ngram_counts", Ints{0, 3}}},   // Leaves 3 numbers for the pairs.
      {4, {"ngram_counts", Ints{0, 8}}},   // Beyond the end.
      {4, {"ngram_counts", Ints{0, -2}}},  // Backwards.
      {5, {"ngram_indexes", Ints{0, 1, 2}}},
      {5, {"ngram_indexes", Ints{0, 1, 2, -1}}},
      {5, {"ngram_indexes", Ints{0, 1, 2, INT64_MAX}}},
      {0, {"min_gram_length", int64_t{3}}},
      {2, {"max_skip_count", int64_t{-1}}},
  };
  for (const auto& one : cases) {
    OpSetup counts = Counts(1, 2, 0);
    counts.attrs[one.attribute] = one.value;
    EXPECT_THAT(InferOf(counts, {{"int64[3]"}}),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr(one.value.name)));
  }
}

}  // namespace
}  // namespace nodewise
