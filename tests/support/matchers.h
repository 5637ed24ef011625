#pragma once

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nodewise {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

// A Status or StatusOr that is OK.
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok();
}

// A Status or StatusOr that failed with a code and a message that matches.
MATCHER_P2(FailsWith, code, message_matcher,
           "fails with " + absl::StatusCodeToString(code)) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  if (status.code() != code) return false;
  return testing::ExplainMatchResult(
      testing::Matcher<std::string>(message_matcher),
      std::string(status.message()), result_listener);
}

}  // namespace nodewise
