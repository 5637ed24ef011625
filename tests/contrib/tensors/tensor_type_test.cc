#include "nodewise/tensors/tensor_type.h"

#include <gtest/gtest.h>

#include "nodewise/ndarray/dtype.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

Dim N(const char* name) { return Dim::Named(name); }

TEST(TensorTypeTest, TextHasAllThatIsKnown) {
  EXPECT_EQ(ToString(TensorType(kFloat32, {N("batch"), 3, Dim()})),
            "float32[batch, 3, ?]");
  EXPECT_EQ(ToString(TensorType(kInt64, {})), "int64[]");
  EXPECT_EQ(ToString(TensorType(kBool)), "bool[...]");
  EXPECT_EQ(ToString(TensorType()), "?[...]");
  EXPECT_EQ(ToString(TensorType(kFloat32, {N("a b]\"\n")})),
            "float32[\"a b]\\\"\\n\"]");
}

TEST(TensorTypeTest, TextComesBackTheSame) {
  for (const TensorType& type :
       {TensorType(), TensorType(kFloat32), TensorType(kInt64, {}),
        TensorType(kBool, {N("x"), 0, Dim(), 7}),
        TensorType({kDLBfloat, 16, 1}, {N("3 times"), N("_a.b")}),
        TensorType({kDLFloat, 32, 4}, {1}), TensorType({9, 7, 0}, {-5}),
        TensorType({kDLOpaqueHandle, 0, 0})}) {
    const auto again = ParseTensorType(ToString(type));
    ASSERT_THAT(again, IsOk()) << ToString(type);
    EXPECT_EQ(*again, type) << ToString(type);
  }
}

TEST(TensorTypeTest, TextThatIsNotATypeIsRefused) {
  for (const char* text :
       {"", "float32", "float32[", "float32[1", "float32[1,]", "float33x[1]",
        "float32[1] ", "float32[1]]", "float32[..]", "float32[a b]",
        "float32[99999999999999999999]", "float32[\"a]", "dtype(1,2)[]",
        "dtype(256, 1, 1)[]", "float32[-9223372036854775808]"}) {
    const auto type = ParseTensorType(text);
    if (std::string_view(text) == "float32[1] ") {
      EXPECT_THAT(type, IsOk());
    } else {
      EXPECT_THAT(
          type, FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected")))
          << text;
    }
  }
}

TEST(TensorTypeTest, OfADataHasItsSizes) {
  const TensorType type = TensorType::From(*MakeTensor<float>({2, 0}, {}));
  EXPECT_EQ(type, TensorType(kFloat32, {2, 0}));
  EXPECT_TRUE(type.is_static());
  EXPECT_EQ(*type.sizes(), (std::vector<int64_t>{2, 0}));
}

TEST(TensorTypeTest, SizesAreThereOnlyIfAllAreKnown) {
  EXPECT_FALSE(TensorType(kFloat32, {2, N("n")}).sizes().has_value());
  EXPECT_FALSE(TensorType(kFloat32).sizes().has_value());
}

TEST(TensorTypeTest, NamesAgreeWithAnyNumber) {
  const TensorType named(kFloat32, {N("n"), 3});
  EXPECT_TRUE(AreCompatible(named, TensorType(kFloat32, {5, 3})));
  EXPECT_TRUE(AreCompatible(named, TensorType()));
  EXPECT_FALSE(AreCompatible(named, TensorType(kFloat32, {5, 4})));
  EXPECT_FALSE(AreCompatible(named, TensorType(kFloat32, {3})));
  EXPECT_FALSE(AreCompatible(named, TensorType(kInt64, {5, 3})));
}

TEST(TensorTypeTest, UnionHasWhatEitherKnows) {
  EXPECT_EQ(Unite(TensorType(kFloat32, {N("n"), Dim(), 4}),
                  TensorType(DLDataType{}, {2, N("m"), Dim()}))
                .value(),
            TensorType(kFloat32, {2, N("m"), 4}));
  EXPECT_EQ(Unite(TensorType(kFloat32), TensorType(kFloat32, {N("n")})).value(),
            TensorType(kFloat32, {N("n")}));
  EXPECT_THAT(
      Unite(TensorType(kFloat32, {2}), TensorType(kFloat32, {3})),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("float32[2] does not agree with float32[3]")));
}

TEST(TensorTypeTest, BroadcastingUsesWhatIsKnown) {
  const struct {
    Shape a, b, result;
  } rows[] = {
      {{2, 3}, {3}, {2, 3}},
      {{2, 1}, {1, 5}, {2, 5}},
      {{}, {4}, {4}},
      {{N("n")}, {1}, {N("n")}},
      {{N("n")}, {N("n")}, {N("n")}},
      {{N("n")}, {N("m")}, {Dim()}},
      {{N("n")}, {Dim()}, {Dim()}},
      {{N("n")}, {5}, {5}},
      {{0}, {1}, {0}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(BroadcastShapes({row.a, row.b}).value(), row.result)
        << ToString(row.a) << ToString(row.b);
    EXPECT_EQ(BroadcastShapes({row.b, row.a}).value(), row.result);
  }
}

TEST(TensorTypeTest, SidesThatDoNotBroadcastAreNamed) {
  EXPECT_THAT(BroadcastShapes({{2, 3, 1}, {4, 5}}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("[2, 3, 1] and [4, 5]: sides of 3 and 4 (1 "
                                  "from the last)")));
}

TEST(TensorTypeTest, OnnxNumbersComeBackTheSame) {
  for (const int64_t number : {1,  2,  3,  4,  5,  6,  7,  9,  10, 11, 12, 13,
                               16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26}) {
    EXPECT_EQ(OnnxNumberOf(DTypeFromOnnx(number).value()), number);
  }
  EXPECT_TRUE(DTypeFromOnnx(10).value() == (DLDataType{kDLFloat, 16, 1}));
}

TEST(TensorTypeTest, RefusedOnnxTypesAreNamed) {
  EXPECT_THAT(DTypeFromOnnx(27), FailsWith(StatusCode::kUnimplemented,
                                           HasSubstr("float6e2m3 (27)")));
  EXPECT_THAT(DTypeFromOnnx(8),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("string")));
  EXPECT_THAT(DTypeFromOnnx(0), FailsWith(StatusCode::kInvalidArgument,
                                          HasSubstr("element type 0")));
  EXPECT_FALSE(OnnxNumberOf({kDLInt, 1, 1}).has_value());
}

}  // namespace
}  // namespace nodewise
