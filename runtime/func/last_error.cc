#include "nodewise/func/last_error.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "nodewise/func/python_error.h"

namespace nodewise {
namespace {

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

// Returns whether a message begins as TVM's do, "ValueError: ".
bool NamesItsKind(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(": "));
  return name.size() < message.size() && name.ends_with("Error") &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_' || c == '.';
         });
}

}  // namespace

void SetLastError(absl::Status status) {
  const std::string message(status.message());
  Slot().message =
      NamesItsKind(message) ? message : "InternalError: " + message;
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
  return absl::InternalError("the function failed without saying why");
}

void DropLastError() {
  if (HasLastError()) Exchange(absl::OkStatus()).IgnoreError();
}

}  // namespace nodewise
