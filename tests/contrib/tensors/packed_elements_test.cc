#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nodewise/tensors/tensor_proto.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr DLDataType kInt4{kDLInt, 4, 1};
constexpr DLDataType kUint4{kDLUInt, 4, 1};
constexpr DLDataType kInt2{kDLInt, 2, 1};
constexpr DLDataType kUint2{kDLUInt, 2, 1};
constexpr DLDataType kFloat4{kDTypeE2M1, 4, 1};

NDArray Elements(DLDataType dtype, const std::vector<int>& values) {
  auto tensor =
      NDArray::Empty({static_cast<int64_t>(values.size())}, dtype, kCpu);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor->As<int8_t>()[i] = static_cast<int8_t>(values[i]);
  }
  return *tensor;
}

std::vector<int> SignedBytesOf(const NDArray& tensor) {
  return {tensor.As<int8_t>(), tensor.As<int8_t>() + tensor.bytes()};
}

std::vector<int> PackedBytesOf(const absl::StatusOr<std::string>& bytes) {
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes->data());
  return {data, data + bytes->size()};
}

struct PackedRow {
  DLDataType dtype;
  std::vector<int> values;
  std::vector<int> bytes;
};

std::vector<PackedRow> Rows() {
  return {{kInt4, {1, -2, -8}, {0xE1, 0x08}},
          {kUint4, {1, 14, 8}, {0xE1, 0x08}},
          {kFloat4, {1, 14, 8}, {0xE1, 0x08}},
          {kInt2, {1, -2, -1, 0, 1}, {0x39, 0x01}},
          {kUint2, {1, 2, 3, 0, 1}, {0x39, 0x01}},
          {kInt4, {}, {}},
          {{kDLInt, 8, 1}, {1, -2}, {0x01, 0xFE}}};
}

TEST(PackedElementsTest, TheFirstElementIsInTheLowestBits) {
  for (const PackedRow& row : Rows()) {
    const NDArray tensor = Elements(row.dtype, row.values);
    EXPECT_EQ(OnnxBytes(row.dtype, static_cast<int64_t>(row.values.size())),
              row.bytes.size());
    EXPECT_THAT(PackedBytesOf(OnnxDataOf(tensor)), ElementsAreArray(row.bytes));
    const NDArray back =
        Elements(row.dtype, std::vector<int>(row.values.size()));
    const std::vector<uint8_t> bytes(row.bytes.begin(), row.bytes.end());
    UnpackElements(bytes, back);
    EXPECT_THAT(SignedBytesOf(back), ElementsAreArray(row.values))
        << ToString(row.dtype);
  }
}

TEST(PackedElementsTest, BitsBehindTheLastElementMeanNothing) {
  const NDArray tensor = Elements(kInt4, {0});
  UnpackElements({0xF7}, tensor);
  EXPECT_THAT(SignedBytesOf(tensor), ElementsAre(7));
}

TEST(PackedElementsTest, NumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(OnnxDataOf(Elements(kInt4, {1, 8})),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("element 1 is 8, which int4 does not hold")));
  EXPECT_FALSE(OnnxDataOf(Elements(kUint2, {4})).ok());
}

TEST(PackedElementsTest, TensorProtosComeBack) {
  for (const PackedRow& row : Rows()) {
    const NDArray tensor = Elements(row.dtype, row.values);
    const auto bytes = WriteTensorProto({"x", tensor});
    ASSERT_THAT(bytes, IsOk());
    const auto read = ParseTensorProto(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes->data()),
                            bytes->size()),
        "x.pb");
    ASSERT_THAT(read, IsOk());
    EXPECT_TRUE(read->tensor.dtype() == row.dtype);
    EXPECT_THAT(SignedBytesOf(read->tensor), ElementsAreArray(row.values));
  }
}

// Packed, in the list of int32.
TensorFields FieldsOf(int64_t data_type, absl::Span<const int64_t> dims,
                      absl::Span<const int32_t> numbers) {
  TensorFields fields;
  fields.dims = dims;
  fields.data_type = data_type;
  fields.int32s = numbers;
  return fields;
}

TEST(PackedElementsTest, EachNumberOfAListIsAByte) {
  constexpr int64_t kOnnxInt4 = 22;
  const std::vector<int64_t> dims = {3};
  const std::vector<int32_t> numbers = {0xE1, 0x08};
  const auto tensor = MakeTensor(FieldsOf(kOnnxInt4, dims, numbers), nullptr);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(SignedBytesOf(*tensor), ElementsAre(1, -2, -8));
  const std::vector<int32_t> unpacked = {1, -2, -8};
  EXPECT_THAT(MakeTensor(FieldsOf(kOnnxInt4, dims, unpacked), nullptr),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("int32_data has 3 bytes, expected 2")));
  const std::vector<int32_t> large = {256, 0};
  EXPECT_THAT(
      MakeTensor(FieldsOf(kOnnxInt4, dims, large), nullptr),
      FailsWith(absl::StatusCode::kDataLoss, HasSubstr("number 0 is 256")));
}

}  // namespace
}  // namespace nodewise
