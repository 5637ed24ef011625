#include "nodewise/func/c_errors.h"

#include <cxxabi.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// There is one for each thread, as in TVM's C API.
struct ErrorSlot {
  ~ErrorSlot() { AbandonPythonException(status); }

  absl::Status status;  // OK once it is taken.
  std::string message;  // Null-terminated for C.
};

ErrorSlot& Slot() {
  thread_local ErrorSlot slot;
  return slot;
}

// A status may hold a Python exception, and releasing it runs code of the host
// that may call anything here: the slot gets its new content first.
absl::Status Exchange(absl::Status status) {
  return std::exchange(Slot().status, std::move(status));
}

// A shortage of memory says nothing of the function, which may succeed another
// time.
absl::Status StatusOfThrown(std::string_view place,
                            const std::string& thrower) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return StatusOfHandled(place);
  } catch (...) {
    return absl::InternalError(thrower + TextOfException());
  }
}

// TVM's messages begin with the type of their error, as in "ValueError: ".
bool HasErrorKindPrefix(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(": "));
  return name.size() < message.size() && name.ends_with("Error") &&
         std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_' || c == '.';
         });
}

}  // namespace

void SetLastError(absl::Status status) {
  // A string of its own, because the status is moved away.
  const std::string message(status.message());
  Slot().message =
      HasErrorKindPrefix(message) ? message : "InternalError: " + message;
  Exchange(std::move(status)).IgnoreError();
}

void SetLastErrorText(const char* message) {
  Slot().message = message;
  Exchange(absl::InternalError(message)).IgnoreError();
}

const char* LastErrorMessage() { return Slot().message.c_str(); }

void* LastPythonException() { return PythonExceptionOf(Slot().status); }

bool HasLastError() { return !Slot().status.ok(); }

absl::Status TakeLastError() {
  absl::Status status = Exchange(absl::OkStatus());
  if (!status.ok()) return status;
  return Internal("the function failed without saying why");
}

void DropLastError() {
  if (HasLastError()) Exchange(absl::OkStatus()).IgnoreError();
}

int Report(absl::Status status) {
  if (status.ok()) return 0;
  SetLastError(std::move(status));
  return -1;
}

absl::Status NullArgument(const char* function, const char* argument) {
  return InvalidArgument("{}: {} is null", function, argument);
}

// A forced unwind is not an error of the function, and stopping it would end
// the process.
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
  return StatusOfThrown(function, fmt::format("{}: ", function));
}

absl::Status StatusOfThrowingFunction() {
  return StatusOfThrown("", "the function ");
}

}  // namespace nodewise
