#include "nodewise/func/c_call.h"

#include <cxxabi.h>

#include <exception>
#include <utility>

#include "fmt/format.h"
#include "nodewise/func/last_error.h"

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

absl::Status StatusOfException(const char* function) {
  return absl::InternalError(
      fmt::format("{}: {}", function, TextOfException()));
}

}  // namespace nodewise
