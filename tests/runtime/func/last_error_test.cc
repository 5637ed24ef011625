#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "nodewise/func/c_api.h"
#include "nodewise/func/c_errors.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using absl::StatusCode;

TEST(LastErrorTest, StatusKeepsItsCodeAndMessage) {
  SetLastError(absl::OutOfRangeError("output 3"));
  EXPECT_STREQ(LastErrorMessage(), "InternalError: output 3");
  EXPECT_THAT(TakeLastError(), FailsWith(StatusCode::kOutOfRange, "output 3"));
}

TEST(LastErrorTest, ErrorIsTakenOnce) {
  SetLastError(absl::OutOfRangeError("output 3"));
  TakeLastError().IgnoreError();
  EXPECT_THAT(TakeLastError(),
              FailsWith(StatusCode::kInternal,
                        "the function failed without saying why"));
}

TEST(LastErrorTest, MessageStaysForTheHostAfterTheErrorIsTaken) {
  SetLastError(absl::OutOfRangeError("output 3"));
  TakeLastError().IgnoreError();
  EXPECT_STREQ(LastErrorMessage(), "InternalError: output 3");
}

TEST(LastErrorTest, DroppedErrorLeavesItsMessage) {
  SetLastError(absl::OutOfRangeError("output 3"));
  DropLastError();
  EXPECT_STREQ(LastErrorMessage(), "InternalError: output 3");
  EXPECT_THAT(TakeLastError(),
              FailsWith(StatusCode::kInternal,
                        "the function failed without saying why"));
}

TEST(LastErrorTest, LaterErrorReplacesAnEarlierOne) {
  SetLastError(absl::OutOfRangeError("first"));
  SetLastError(absl::NotFoundError("second"));
  EXPECT_THAT(TakeLastError(), FailsWith(StatusCode::kNotFound, "second"));
}

// TVM's Python package chooses the exception by the word before the colon.
TEST(LastErrorTest, HostSeesAnInternalErrorUnlessTheMessageNamesAnother) {
  SetLastError(absl::NotFoundError("AttributeError: Report has no calls"));
  EXPECT_STREQ(LastErrorMessage(), "AttributeError: Report has no calls");
  SetLastError(absl::NotFoundError("no such Error: x"));
  EXPECT_STREQ(LastErrorMessage(), "InternalError: no such Error: x");
  SetLastError(absl::NotFoundError("Error"));
  EXPECT_STREQ(LastErrorMessage(), "InternalError: Error");
}

TEST(LastErrorTest, CodeThatReportsInCIsInternal) {
  TVMAPISetLastError("Assert fail: n == 1");
  EXPECT_STREQ(TVMGetLastError(), "Assert fail: n == 1");
  EXPECT_THAT(TakeLastError(),
              FailsWith(StatusCode::kInternal, "Assert fail: n == 1"));
}

TEST(LastErrorTest, NullMessageIsAnEmptyOne) {
  TVMAPISetLastError(nullptr);
  EXPECT_STREQ(TVMGetLastError(), "");
  EXPECT_THAT(TakeLastError(), FailsWith(StatusCode::kInternal, ""));
}

TEST(LastErrorTest, EveryThreadHasItsOwn) {
  SetLastError(absl::OutOfRangeError("of the first thread"));
  std::string seen = "not run";
  std::thread([&seen] {
    seen = LastErrorMessage();
    SetLastError(absl::NotFoundError("of the second"));
  }).join();
  EXPECT_EQ(seen, "");
  EXPECT_THAT(TakeLastError(),
              FailsWith(StatusCode::kOutOfRange, "of the first thread"));
}

}  // namespace
}  // namespace nodewise
