#include "nodewise/runtime/c_call.h"

#include <exception>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/last_error.h"

namespace nodewise {

int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

absl::Status NullArgument(const char* function, const char* argument) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: %s is null", function, argument));
}

absl::Status StatusOfException(const char* function) {
  try {
    throw;
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrFormat("%s: threw: %s", function, error.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrFormat("%s: threw something unknown", function));
  }
}

}  // namespace nodewise
