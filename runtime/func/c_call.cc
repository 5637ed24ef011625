#include "nodewise/func/c_call.h"

#include <cxxabi.h>

#include <exception>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/last_error.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

absl::Status NullArgument(const char* function, const char* argument) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is null", function, argument));
}

std::string TextOfException() {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::exception& error) {
    return fmt::format("threw: {}", error.what());
  } catch (...) {
    return "threw something unknown";
  }
}

// That memory ran out says nothing of the function: another time there is some.
absl::Status StatusOfException(const char* function) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return StatusOfHandled(function);
  } catch (...) {
    return absl::InternalError(
        fmt::format("{}: {}", function, TextOfException()));
  }
}

absl::Status StatusOfThrowingFunction() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return StatusOfHandled("");
  } catch (...) {
    return absl::InternalError("the function " + TextOfException());
  }
}

}  // namespace nodewise
