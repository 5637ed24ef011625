#include "nodewise/ndarray/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(DTypeTest, EverySpellingOfTvmIsReadAndWrittenBack) {
  const struct {
    const char* text;
    DLDataType dtype;
    const char* written;
  } rows[] = {
      {"float32", {kDLFloat, 32, 1}, "float32"},
      {"float", {kDLFloat, 32, 1}, "float32"},
      {"float16", {kDLFloat, 16, 1}, "float16"},
      {"float64", {kDLFloat, 64, 1}, "float64"},
      {"int", {kDLInt, 32, 1}, "int32"},
      {"int4", {kDLInt, 4, 1}, "int4"},
      {"int8", {kDLInt, 8, 1}, "int8"},
      {"int64", {kDLInt, 64, 1}, "int64"},
      {"uint", {kDLUInt, 32, 1}, "uint32"},
      {"uint1", {kDLUInt, 1, 1}, "bool"},
      {"uint4", {kDLUInt, 4, 1}, "uint4"},
      {"uint8", {kDLUInt, 8, 1}, "uint8"},
      {"uint16", {kDLUInt, 16, 1}, "uint16"},
      {"bool", {kDLUInt, 1, 1}, "bool"},
      {"bool8", kFfiBool, "bool8"},
      {"bool8x4", {kDTypeBool, 8, 4}, "bool8x4"},
      {"boolx4", {kDLUInt, 1, 4}, "boolx4"},
      {"bfloat", {kDLBfloat, 16, 1}, "bfloat16"},
      {"bfloat16", {kDLBfloat, 16, 1}, "bfloat16"},
      {"e4m3_float8", {kDTypeE4M3, 8, 1}, "e4m3_float8"},
      {"float8_e4m3fnuz", {kDTypeE4M3Fnuz, 8, 1}, "float8_e4m3fnuz"},
      {"float8_e5m2fnuz", {kDTypeE5M2Fnuz, 8, 1}, "float8_e5m2fnuz"},
      {"float8_e8m0fnu", {kDTypeE8M0, 8, 1}, "float8_e8m0fnu"},
      {"float8_e8m0fnux4", {kDTypeE8M0, 8, 4}, "float8_e8m0fnux4"},
      {"float4_e2m1fn", {kDTypeE2M1, 4, 1}, "float4_e2m1fn"},
      {"int2", {kDLInt, 2, 1}, "int2"},
      {"uint2", {kDLUInt, 2, 1}, "uint2"},
      {"e5m2_float", {kDTypeE5M2, 8, 1}, "e5m2_float8"},
      {"float8_e4m3fn", {kDTypeE4M3, 8, 1}, "e4m3_float8"},
      {"float8_e5m2", {kDTypeE5M2, 8, 1}, "e5m2_float8"},
      {"handle", {kDLOpaqueHandle, 64, 1}, "handle"},
      {"handle32", {kDLOpaqueHandle, 32, 1}, "handle32"},
      {"complex64", {kDLComplex, 64, 1}, "complex64"},
      {"float32x4", {kDLFloat, 32, 4}, "float32x4"},
      {"float32x1", {kDLFloat, 32, 1}, "float32"},
      {"int8x65535", {kDLInt, 8, 65535}, "int8x65535"},
      {"floatx8", {kDLFloat, 32, 8}, "float32x8"},
      {"void", {kDLOpaqueHandle, 0, 0}, "void"},
      {"", {kDLOpaqueHandle, 0, 0}, "void"},
  };
  for (const auto& row : rows) {
    const auto dtype = ParseDType(row.text);
    ASSERT_THAT(dtype, IsOk()) << row.text;
    EXPECT_TRUE(*dtype == row.dtype) << row.text;
    EXPECT_EQ(ToString(*dtype), row.written);
  }
}

TEST(DTypeTest, TextThatIsNotATypeIsRefusedAndQuoted) {
  const char* const texts[] = {"float32 ",      " float32",  "Float32",
                               "float33x",      "float-32",  "float256",
                               "float9999",     "int8x",     "int8x65536",
                               "int8x-1",       "boolean",   "bool16",
                               "foo",           "32",        "x4",
                               "int8x4x4",      "float32\n", "custom[a]",
                               "floatxvscalex4"};
  for (const char* text : texts) {
    EXPECT_THAT(ParseDType(text),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr("unknown type \"" + std::string(text))));
  }
}

TEST(DTypeTest, CodeWithoutNameIsWrittenAsItsNumber) {
  EXPECT_EQ(ToString(DLDataType{131, 16, 1}), "custom[131]16");
  EXPECT_EQ(ToString(DLDataType{131, 16, 4}), "custom[131]16x4");
}

TEST(DTypeTest, ElementsTakeWholeBytesWithAllLanes) {
  const struct {
    DLDataType dtype;
    size_t bytes;
  } rows[] = {
      {kFloat32, 4},
      {kInt64, 8},
      {kBool, 1},
      {{kDLInt, 4, 1}, 1},
      {{kDLUInt, 4, 2}, 1},
      {{kDLUInt, 4, 3}, 2},
      {{kDLUInt, 1, 8}, 1},
      {{kDLUInt, 1, 9}, 2},
      {{kDLFloat, 32, 4}, 16},
      {{kDLBfloat, 16, 1}, 2},
      {{kDTypeE4M3, 8, 1}, 1},
      {{kDLOpaqueHandle, 0, 0}, 0},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(ElementBytes(row.dtype), row.bytes) << ToString(row.dtype);
  }
}

TEST(DTypeTest, BoolAndEightBitFloatsHaveOneNumberHereAndAnotherThere) {
  const DLDataType e4m3 = {kDTypeE4M3, 8, 1};
  const DLDataType e5m2 = {kDTypeE5M2, 8, 1};
  EXPECT_TRUE(ClassicType(kFfiBool) == kBool);
  EXPECT_TRUE(FfiType(kBool) == kFfiBool);
  EXPECT_TRUE(ClassicType(e4m3) == (DLDataType{6, 8, 1}));
  EXPECT_TRUE(ClassicType(e5m2) == (DLDataType{7, 8, 1}));
  EXPECT_TRUE(FfiType(e4m3) == e4m3);
  EXPECT_TRUE(ClassicType(kFloat32) == kFloat32);
  EXPECT_TRUE(FfiType(kFloat32) == kFloat32);
}

TEST(DTypeTest, TypesAreTheSameByEitherNumber) {
  const DLDataType e4m3 = {kDTypeE4M3, 8, 1};
  EXPECT_TRUE(IsSameType(kBool, kFfiBool));
  EXPECT_TRUE(IsSameType(kFfiBool, kBool));
  EXPECT_TRUE(IsSameType(e4m3, {6, 8, 1}));
  EXPECT_TRUE(IsSameType(kFloat32, kFloat32));
  EXPECT_FALSE(IsSameType(kBool, {kDLUInt, 8, 1}));
  EXPECT_FALSE(IsSameType(kBool, e4m3));
  EXPECT_FALSE(IsSameType(kFfiBool, {kDTypeBool, 8, 4}));
  EXPECT_FALSE(IsSameType(e4m3, {kDTypeE5M2, 8, 1}));
}

TEST(DTypeTest, TensorMayHaveTheWidthsOfTvmAndOnnxAlone) {
  const struct {
    DLDataType dtype;
    bool fine;
  } rows[] = {
      {kFloat32, true},
      {kBool, true},
      {{kDLInt, 1, 1}, true},
      {{kDLInt, 2, 1}, true},
      {{kDLInt, 4, 1}, true},
      {{kDLInt, 7, 1}, false},
      {{kDLInt, 8, 1}, true},
      {{kDLInt, 24, 1}, false},
      {{kDLUInt, 128, 1}, true},
      {{kDLInt, 0, 1}, false},
      {{kDLFloat, 4, 1}, false},
      {{kDTypeE2M1, 4, 1}, true},
      {{kDTypeE2M1, 8, 1}, false},
      {{kDTypeE8M0, 8, 1}, true},
      {{kDLFloat, 8, 1}, true},
      {{kDLFloat, 0, 1}, false},
      {{kDLFloat, 32, 0}, false},
      {{kDLFloat, 32, 4}, true},
      {{kDLOpaqueHandle, 0, 0}, false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(CheckDType(row.dtype).ok(), row.fine) << ToString(row.dtype);
  }
  EXPECT_THAT(CheckDType({kDLInt, 7, 1}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("type int7 (code 0, 7 bits, 1 lanes)")));
}

TEST(ShapeTest, ElementsAreTheProductOfTheDimensions) {
  const struct {
    std::vector<int64_t> shape;
    int64_t elements;
  } rows[] = {
      {{}, 1},
      {{0}, 0},
      {{7}, 7},
      {{2, 3, 4}, 24},
      {{kMost}, kMost},
      {{kMost, kMost, 0}, 0},
      {{1, 1, 1}, 1},
      {{int64_t{1} << 31, int64_t{1} << 31}, int64_t{1} << 62},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(NumElements(row.shape).value(), row.elements);
  }
}

TEST(ShapeTest, NegativeDimensionIsRefusedThoughAnotherIsZero) {
  EXPECT_THAT(NumElements({0, -1}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("(0, -1) has a negative dimension")));
}

TEST(ShapeTest, ProductBeyond63BitsIsRefused) {
  const std::vector<std::vector<int64_t>> shapes = {
      {kMost, 2},
      {int64_t{1} << 32, int64_t{1} << 32},  // 0 in TVM's arithmetic.
      {int64_t{1} << 21, int64_t{1} << 21, int64_t{1} << 22}};
  for (const auto& shape : shapes) {
    EXPECT_THAT(NumElements(shape),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr("more elements than memory can hold")));
  }
}

TEST(ShapeTest, BytesBeyond63BitsAreRefused) {
  const int64_t half = int64_t{1} << 61;
  EXPECT_EQ(TensorBytes({half}, {kDLInt, 16, 1}).value(), size_t{1} << 62);
  EXPECT_THAT(
      TensorBytes({half}, kFloat32),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("of float32 needs more bytes than memory can hold")));
}

TEST(ShapeTest, ShapeIsWrittenAsPythonWritesIt) {
  EXPECT_EQ(ShapeToString({}), "()");
  EXPECT_EQ(ShapeToString({3}), "(3,)");
  EXPECT_EQ(ShapeToString({1, -2, 3}), "(1, -2, 3)");
}

}  // namespace
}  // namespace nodewise
