#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OpSetup Labels(int opset, std::vector<NamedAttr> attrs) {
  return {"LabelEncoder", opset, std::move(attrs), 1, "ai.onnx.ml"};
}

TEST(LabelEncoderTest, KeysBecomeValuesAndTheRestTheDefault) {
  const OpSetup words = Labels(2, {{"keys_int64s", Ints{3, 4}},
                                   {"values_floats", Numbers{0.5F, -2}},
                                   Real("default_float", 9)});
  EXPECT_THAT(ElementsOf(words, {Longs({4, 3, 5})}), ElementsAre(-2, 0.5, 9));
  EXPECT_EQ(InferredType(words, {{"int64[n, 2]"}}), "float32[n, 2]");
  EXPECT_THAT(ElementsOf<int64_t>(Labels(2, {{"keys_floats", Numbers{0.5F}},
                                             {"values_int64s", Ints{7}}}),
                                  {Floats({0.5F, 1})}),
              ElementsAre(7, -1));
}

TEST(LabelEncoderTest, BitsOfKeysCountInVersion2AndNumbersInVersion4) {
  const std::vector<NamedAttr> attrs = {{"keys_floats", Numbers{0, kNan, 1, 1}},
                                        {"values_int64s", Ints{5, 6, 7, 8}}};
  const NDArray x = Floats({-0.0F, 0, -kNan, kNan, 1});
  EXPECT_THAT(ElementsOf<int64_t>(Labels(2, attrs), {x}),
              ElementsAre(-1, 5, -1, 6, 7));
  EXPECT_THAT(ElementsOf<int64_t>(Labels(4, attrs), {x}),
              ElementsAre(5, 5, 6, 6, 8));
}

TEST(LabelEncoderTest, TensorsHoldKeysAndValuesOfOtherTypes) {
  const OpSetup labels =
      Labels(4, {{"keys_tensor", MakeTensor<int16_t>({2}, {3, 4})},
                 {"values_tensor", MakeTensor<double>({2}, {0.1, 0.2})},
                 {"default_tensor", MakeTensor<double>({1}, {0.3})}});
  EXPECT_THAT(ElementsOf<double>(labels, {MakeTensor<int16_t>({2}, {4, 5})}),
              ElementsAre(0.2, 0.3));
  EXPECT_THAT(InferredType(labels, {{"int64[2]"}}), HasSubstr("input 0"));
}

TEST(LabelEncoderTest, StringsAndListsThatDoNotFitAreRefused) {
  const auto refused = [](std::vector<NamedAttr> attrs, const char* said) {
    EXPECT_THAT(InferredType(Labels(4, std::move(attrs)), {{"int64[1]"}}),
                HasSubstr(said));
  };
  refused({{"keys_strings", std::vector<std::string>{"a"}},
           {"values_int64s", Ints{1}}},
          "UNIMPLEMENTED: attribute keys_strings: is given, and strings are "
          "refused");
  refused({{"keys_int64s", Ints{1, 2}}, {"values_int64s", Ints{1}}},
          "has 2 elements, but values_* has 1");
  refused({{"values_int64s", Ints{1}}}, "keys_int64s: is missing");
  refused({{"keys_int64s", Ints{1}},
           {"keys_tensor", Longs({1})},
           {"values_int64s", Ints{1}}},
          "keys_tensor: is given beside another list");
  refused({{"keys_int64s", Ints{1}},
           {"values_int64s", Ints{1}},
           {"default_tensor", Floats({1})}},
          "default_tensor: is not a single element of type int64");
}

OpSetup Categories(std::vector<NamedAttr> attrs) {
  return {"OneHotEncoder", 1, std::move(attrs), 1, "ai.onnx.ml"};
}

TEST(OneHotEncoderTest, ThePlaceOfTheCategoryIsOne) {
  const OpSetup op = Categories({{"cats_int64s", Ints{7, -2}}});
  EXPECT_THAT(ElementsOf(op, {Floats({-2.9F, 7.5F, 1, kNan, 1e30F})}),
              ElementsAre(0, 1, 1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(InferredType(op, {{"int64[n, 3]"}}), "float32[n, 3, 2]");
}

TEST(OneHotEncoderTest, WhatIsNotACategoryMayBeAnError) {
  const OpSetup op = Categories({{"cats_int64s", Ints{7}}, Attr("zeros", 0)});
  EXPECT_THAT(ElementsOf(op, {Longs({7})}), ElementsAre(1));
  EXPECT_THAT(EvaluateOne(op, {Longs({7, 8})}),
              FailsWith(kInvalid, HasSubstr("has 8, expected a category")));
}

OpSetup Features(std::vector<NamedAttr> attrs) {
  return {"FeatureVectorizer", 1, std::move(attrs), 1, "ai.onnx.ml"};
}

TEST(FeatureVectorizerTest, RowsStandSideBySideCutOrFilledWithZeros) {
  const NDArray wide = MakeTensor<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const NDArray narrow = MakeTensor<int64_t>({2, 1}, {7, 8});
  const OpSetup op = Features({{"inputdimensions", Ints{2, 2}}});
  EXPECT_THAT(ElementsOf(op, {wide, narrow}),
              ElementsAre(1, 2, 7, 0, 4, 5, 8, 0));
  EXPECT_THAT(ElementsOf(Features({}), {wide, narrow}),
              ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  EXPECT_THAT(ElementsOf(Features({}), {Longs({1, 2}), Longs({3})}),
              ElementsAre(1, 2, 3));
}

TEST(FeatureVectorizerTest, InputsThatDoNotFitAreRefused) {
  EXPECT_THAT(InferredType(Features({}), {{"int64[2, 1]"}, {"int64[3, 1]"}}),
              HasSubstr("input 1: has 3 rows, expected 2 as input 0"));
  EXPECT_THAT(InferredType(Features({{"inputdimensions", Ints{1}}}),
                           {{"int64[2, 1]"}, {"int64[2, 1]"}}),
              HasSubstr("inputdimensions: has 1 elements, expected 2"));
}

}  // namespace
}  // namespace nodewise
