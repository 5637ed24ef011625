#include "nodewise/ndarray/record.h"

#include <dmlc/memory_io.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Where the fields of a record stand.
constexpr size_t kReserved = 8;
constexpr size_t kDeviceType = 16;
constexpr size_t kDeviceNumber = 20;
constexpr size_t kRank = 24;
constexpr size_t kBits = 29;
constexpr size_t kLanes = 30;
constexpr size_t kShape = 32;
constexpr size_t kSize = 40;  // For rank 1.

std::string Write(const NDArray& tensor) {
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  WriteTensorRecord(*tensor, &stream);
  return bytes;
}

absl::StatusOr<TensorRecord> Read(const std::string& bytes) {
  ByteReader reader(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "p.params", 100);
  return ReadTensorRecord(&reader);
}

template <typename T>
std::string Patched(std::string bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

TEST(RecordTest, BytesAreThoseOfTvm) {
  const std::string expected(
      "\x3F\xA1\xB4\x96\xF0\x40\x5E\xDD"  // magic
      "\0\0\0\0\0\0\0\0"                  // reserved
      "\1\0\0\0\0\0\0\0"                  // cpu 0
      "\1\0\0\0"                          // rank
      "\0\x10\1\0"                        // int16, one lane
      "\2\0\0\0\0\0\0\0"                  // shape
      "\4\0\0\0\0\0\0\0"                  // bytes
      "\5\0\xFF\xFF",
      52);
  EXPECT_EQ(Write(MakeTensor<int16_t>({2}, {5, -1})), expected);
}

TEST(RecordTest, WhatIsWrittenIsRead) {
  const std::string bytes = Write(MakeTensor<float>({2, 1}, {1.5, -2}));
  const auto record = Read(bytes);
  ASSERT_THAT(record, IsOk());
  EXPECT_THAT(record->shape, ElementsAre(2, 1));
  EXPECT_TRUE(record->dtype == kFloat32);
  EXPECT_THAT(ValuesOf(record->ToTensor()), ElementsAre(1.5, -2));
}

TEST(RecordTest, ScalarAndEmptyTensorAreRead) {
  const auto scalar = Read(Write(MakeTensor<int8_t>({}, {7})));
  ASSERT_THAT(scalar, IsOk());
  EXPECT_EQ(scalar->data.size(), 1u);
  const auto none = Read(Write(MakeTensor<int8_t>({0, 3}, {})));
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT(none->shape, ElementsAre(0, 3));
}

TEST(RecordTest, SmallestRecordIsTheScalarOfOneByte) {
  EXPECT_EQ(Write(MakeTensor<int8_t>({}, {7})).size(), kLeastRecordBytes);
}

TEST(RecordTest, DeviceNumberAndReservedFieldMeanNothing) {
  const std::string bytes = Write(Floats({1}));
  EXPECT_THAT(Read(Patched(bytes, kReserved, ~uint64_t{0})), IsOk());
  EXPECT_THAT(Read(Patched(bytes, kDeviceNumber, int32_t{5})), IsOk());
}

TEST(RecordTest, CutAtEveryByteIsLocatedDataLoss) {
  const std::string bytes = Write(Floats({1, 2}));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Read(bytes.substr(0, size)),
                FailsWith(StatusCode::kDataLoss, HasSubstr("p.params: byte 1")))
        << size;
  }
}

TEST(RecordTest, FieldThatCannotBeTrueIsNamedWithItsByte) {
  const std::string bytes = Write(Floats({1}));
  const struct {
    std::string bytes;
    const char* where;
    const char* found;
  } rows[] = {
      {Patched(bytes, 0, uint8_t{0}), "byte 100:", "magic is dd5e40f096b4a100"},
      {Patched(bytes, kDeviceType, int32_t{2}), "byte 116:", "device type 2"},
      {Patched(bytes, kRank, int32_t{-1}), "byte 124:", "rank is -1"},
      {Patched(bytes, kRank, INT32_MAX), "byte 124:", "rank is 2147483647"},
      {Patched(bytes, kBits, uint8_t{7}), "byte 128:", "float7"},
      {Patched(bytes, kLanes, uint16_t{0}), "byte 128:", "0 lanes"},
      {Patched(bytes, kShape, int64_t{-1}), "byte 140:", "(-1,)"},
      {Patched(bytes, kShape, INT64_MAX), "byte 140:", "memory can hold"},
      {Patched(bytes, kSize, uint64_t{5}), "byte 140:", "5 data bytes"},
      {Patched(bytes, kSize, ~uint64_t{0}), "byte 140:", "expected 4"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(Read(row.bytes),
                FailsWith(StatusCode::kDataLoss,
                          AllOf(HasSubstr(row.where), HasSubstr(row.found))));
  }
}

TEST(RecordTest, VectorTypeThatTvmCutShortIsRefusedWithTheReason) {
  std::string bytes = Write(Floats({1, 2}));
  bytes = Patched(bytes, kLanes, uint16_t{4});
  EXPECT_THAT(Read(bytes), FailsWith(StatusCode::kDataLoss,
                                     HasSubstr("without their lanes")));
}

}  // namespace
}  // namespace nodewise
