#include "nodewise/tensors/tensor_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/tensors/tensor_file.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

absl::StatusOr<NamedTensor> Parse(std::string_view bytes) {
  return ParseTensorProto(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "t.pb");
}

std::string_view Bytes(const char* data, size_t size) { return {data, size}; }

TEST(TensorProtoTest, WhatIsWrittenIsReadBack) {
  const NDArray tensor = MakeTensor<int16_t>({2, 1}, {-5, 7});
  const std::string bytes = WriteTensorProto({"w", tensor}).value();
  const NamedTensor read = Parse(bytes).value();
  EXPECT_EQ(read.name, "w");
  EXPECT_EQ(read.tensor.shape(), tensor.shape());
  EXPECT_EQ(ValuesOf<int16_t>(read.tensor), (std::vector<int16_t>{-5, 7}));
}

TEST(TensorProtoTest, TheBytesAreThoseOfProtobuf) {
  const NDArray tensor = MakeTensor<uint8_t>({3}, {1, 2, 3});
  EXPECT_EQ(WriteTensorProto({"ab", tensor}).value(),
            Bytes("\x08\x03\x10\x02\x42\x02"
                  "ab\x4a\x03\x01\x02\x03",
                  13));
}

TEST(TensorProtoTest, ListsArePackedOrNot) {
  // dims 2, INT32, int32_data -1 and 300.
  const NamedTensor packed =
      Parse(Bytes("\x0a\x01\x02\x10\x06\x2a\x0c\xff\xff\xff\xff\xff\xff\xff\xff"
                  "\xff\x01\xac\x02",
                  19))
          .value();
  EXPECT_EQ(ValuesOf<int32_t>(packed.tensor), (std::vector<int32_t>{-1, 300}));
  const NamedTensor loose =
      Parse(Bytes("\x08\x02\x10\x06\x28\x05\x28\x06", 8)).value();
  EXPECT_EQ(ValuesOf<int32_t>(loose.tensor), (std::vector<int32_t>{5, 6}));
}

TEST(TensorProtoTest, UnknownFieldsAreSkipped) {
  // A doc_string after the data.
  EXPECT_THAT(Parse(Bytes("\x10\x02\x28\x07\x62\x02hi", 8)), IsOk());
}

TEST(TensorProtoTest, BytesCutShortSayWhere) {
  const std::string bytes = WriteTensorProto({"w", Floats({1, 2, 3})}).value();
  for (size_t size = 1; size < bytes.size(); ++size) {
    const auto read = Parse(bytes.substr(0, size));
    EXPECT_FALSE(read.ok()) << size;
    EXPECT_THAT(read.status().ToString(), HasSubstr("t.pb")) << size;
  }
}

TEST(TensorProtoTest, NothingIsAllocatedForDataThatIsNotThere) {
  // dims 2^40, FLOAT.
  EXPECT_THAT(Parse(Bytes("\x08\x80\x80\x80\x80\x80\x20\x10\x01", 9)),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("float_data has 0 elements, expected "
                                  "1099511627776")));
}

TEST(TensorProtoTest, TypesThatAreRefusedAreNamed) {
  EXPECT_THAT(Parse(Bytes("\x10\x1B", 2)),
              FailsWith(StatusCode::kUnimplemented,
                        testing::ContainsRegex("6[eE]2[mM]3")));
  EXPECT_THAT(Parse(Bytes("\x10\x63", 2)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("99")));
}

TEST(TensorProtoTest, APbFileIsATensorFile) {
  const std::string path =
      std::filesystem::path(testing::TempDir()) / "input_0.pb";
  ASSERT_THAT(WriteTensorFile(path, {{"", Floats({4})}}), IsOk());
  const auto read = ReadTensorFile(path).value();
  ASSERT_EQ(read.size(), 1);
  EXPECT_EQ(read[0].name, "input_0");
  EXPECT_EQ(ValuesOf(read[0].tensor), (std::vector<float>{4}));
  EXPECT_THAT(WriteTensorFile(path, {{"a", Floats({1})}, {"b", Floats({2})}}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("2 tensors for a .pb file, expected 1")));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace nodewise
