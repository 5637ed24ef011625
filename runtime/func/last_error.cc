#include "nodewise/func/last_error.h"

#include <string>
#include <utility>

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

}  // namespace

void SetLastError(absl::Status status) {
  Slot().message = std::string(status.message());
  Exchange(std::move(status)).IgnoreError();
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
