#include "contrib/guarded/guarded_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// The bytes of a child that may send anything.
class SentBytes : public PipeReader {
 public:
  explicit SentBytes(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::Status Read(void* data, size_t bytes) override {
    if (bytes_.size() - at_ < bytes) {
      return absl::DataLossError("child: ended within a message");
    }
    // A tensor without elements may have no memory.
    if (bytes > 0) std::memcpy(data, bytes_.data() + at_, bytes);
    at_ += bytes;
    return absl::OkStatus();
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

class IgnoringListener : public RunListener {
 public:
  absl::Status NodeBegins(uint32_t) override { return absl::OkStatus(); }
  absl::Status NodeEnds() override { return absl::OkStatus(); }
  absl::Status Consume(const TensorItem&) override { return absl::OkStatus(); }
  absl::Status Consume(RunResult) override { return absl::OkStatus(); }
  NDArray FindGivenTensor(const std::string&) const override {
    return NDArray();
  }
  NDArray FindMade(const TensorKey&) const override { return NDArray(); }
};

template <typename T>
std::string BytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string MessageOfKind(uint32_t kind, const std::string& head) {
  return BytesOf(kind) + BytesOf(uint64_t{head.size()}) + head;
}

// A tensor "a" of float32, its rank and shape still to follow.
std::string HeadOfTensor(uint8_t contents) {
  return BytesOf(uint64_t{1}) + "a" + BytesOf(uint32_t{0}) +
         BytesOf(uint8_t{0}) + BytesOf(NodeTime()) + BytesOf(uint8_t{0}) +
         BytesOf(uint8_t{0}) + BytesOf(uint64_t{7}) + BytesOf(contents) +
         BytesOf(DLDataType{kDLFloat, 32, 1});
}

absl::Status HearBytes(const std::string& bytes) {
  SentBytes reader(bytes);
  IgnoringListener listener;
  return ReceiveMessage(reader, "net", &listener);
}

TEST(GuardedMessagesTest, WhatIsNotAMessageIsRefused) {
  const auto expect = [](const std::string& bytes, const char* text) {
    EXPECT_THAT(HearBytes(bytes),
                FailsWith(absl::StatusCode::kDataLoss, HasSubstr(text)));
  };
  constexpr uint8_t kFollow = 1, kAsGiven = 2;
  expect(MessageOfKind(9, ""), "a message of kind 9");
  expect(BytesOf(uint32_t{3}) + BytesOf(uint64_t{1} << 40),
         "a message of 1099511627776 bytes");
  expect(MessageOfKind(1, "ab"), "node needs 4 bytes, 2 are left");
  expect(MessageOfKind(3, BytesOf(uint64_t{1} << 60)), "node needs");
  expect(MessageOfKind(3, HeadOfTensor(kFollow) + BytesOf(uint64_t{1} << 62)),
         "rank");
  const std::string many(65 * sizeof(int64_t), '\0');
  expect(MessageOfKind(3, HeadOfTensor(kFollow) + BytesOf(uint64_t{65}) + many),
         "rank 65, expected at most 64");
  expect(MessageOfKind(3, HeadOfTensor(kFollow) + BytesOf(uint64_t{1}) +
                              BytesOf(int64_t{4})) +
             "short",
         "ended within a message");
  expect(MessageOfKind(3, HeadOfTensor(kAsGiven)),
         "a has the contents of a tensor that has not come");
  expect(MessageOfKind(4, BytesOf(uint8_t{0}) + BytesOf(uint64_t{1} << 50)),
         "tensors");
}

TEST(GuardedMessagesTest, ImpossibleSizesAreRefusedBeforeMemoryIsTaken) {
  for (const int64_t size : {int64_t{-1}, int64_t{1} << 62}) {
    EXPECT_FALSE(
        HearBytes(MessageOfKind(3, HeadOfTensor(1) + BytesOf(uint64_t{1}) +
                                       BytesOf(size)))
            .ok());
  }
}

}  // namespace
}  // namespace nodewise
