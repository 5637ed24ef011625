#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "fmt/core.h"

// Returns the status of `expression` from the function unless it is OK.
#define NODEWISE_RETURN_IF_ERROR(expression)           \
  do {                                                 \
    absl::Status nodewise_status = (expression);       \
    if (!nodewise_status.ok()) return nodewise_status; \
  } while (false)

// Assigns the value of a StatusOr to `target`, which may be a declaration, or
// returns its status from the function.
#define NODEWISE_ASSIGN_OR_RETURN(target, expression)                     \
  NODEWISE_ASSIGN_OR_RETURN_(NODEWISE_CONCAT_(nodewise_value_, __LINE__), \
                             target, expression)

// NOLINTBEGIN(bugprone-macro-parentheses): `target` may be a declaration.
#define NODEWISE_ASSIGN_OR_RETURN_(value, target, expression) \
  auto value = (expression);                                  \
  if (!value.ok()) return std::move(value).status();          \
  target = *std::move(value)
// NOLINTEND(bugprone-macro-parentheses)

#define NODEWISE_CONCAT_(a, b) NODEWISE_CONCAT_INNER_(a, b)
#define NODEWISE_CONCAT_INNER_(a, b) a##b

namespace nodewise {

// Return a status of this code, whose message is put together as
// fmt::format() does.
absl::Status FormattedStatus(absl::StatusCode code, fmt::string_view text,
                             fmt::format_args args);
template <typename... Args>
absl::Status StatusWith(absl::StatusCode code, fmt::string_view text,
                        Args&... args) {
  return FormattedStatus(code, text, fmt::make_format_args(args...));
}

// InvalidArgument("{} has no {}", a, b) and so on: one for each code that we
// return, which says what the caller can do about it.
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kInvalidArgument, text, args...);
}
template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kNotFound, text, args...);
}
template <typename... Args>
absl::Status DataLoss(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kDataLoss, text, args...);
}
template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kUnimplemented, text, args...);
}
template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> text,
                                Args&&... args) {
  return StatusWith(absl::StatusCode::kFailedPrecondition, text, args...);
}
template <typename... Args>
absl::Status OutOfRange(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kOutOfRange, text, args...);
}
template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kUnavailable, text, args...);
}
template <typename... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> text,
                               Args&&... args) {
  return StatusWith(absl::StatusCode::kResourceExhausted, text, args...);
}
template <typename... Args>
absl::Status Internal(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kInternal, text, args...);
}
template <typename... Args>
absl::Status Aborted(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kAborted, text, args...);
}
template <typename... Args>
absl::Status Cancelled(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kCancelled, text, args...);
}
template <typename... Args>
absl::Status PermissionDenied(fmt::format_string<Args...> text,
                              Args&&... args) {
  return StatusWith(absl::StatusCode::kPermissionDenied, text, args...);
}
template <typename... Args>
absl::Status AlreadyExists(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kAlreadyExists, text, args...);
}
template <typename... Args>
absl::Status DeadlineExceeded(fmt::format_string<Args...> text,
                              Args&&... args) {
  return StatusWith(absl::StatusCode::kDeadlineExceeded, text, args...);
}
template <typename... Args>
absl::Status Unknown(fmt::format_string<Args...> text, Args&&... args) {
  return StatusWith(absl::StatusCode::kUnknown, text, args...);
}

// Returns the message of a status, which is valid while the status is. Abseil's
// string_view is not std::string_view in every distribution; this one is.
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// Returns the status, with all that it carries, but with another message.
inline absl::Status WithMessage(const absl::Status& status,
                                const std::string& message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload([&](const auto type, const auto& payload) {
    result.SetPayload(type, payload);
  });
  return result;
}

// Returns the status with `where: ` in front of its message.
inline absl::Status At(std::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  std::string text(where);
  text.append(": ").append(MessageOf(status));
  return WithMessage(status, text);
}

}  // namespace nodewise
