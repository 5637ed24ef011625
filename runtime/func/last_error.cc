#include "nodewise/runtime/last_error.h"

#include <string>
#include <utility>

namespace nodewise {
namespace {

struct ErrorSlot {
  absl::Status status;
  std::string message;  // Null-terminated for C.
};

ErrorSlot& Slot() {
  thread_local ErrorSlot slot;
  return slot;
}

}  // namespace

void SetLastError(absl::Status status) {
  ErrorSlot& slot = Slot();
  slot.message = std::string(status.message());
  slot.status = std::move(status);
}

const char* LastErrorMessage() { return Slot().message.c_str(); }

bool HasLastError() { return !Slot().status.ok(); }

absl::Status TakeLastError() {
  absl::Status status = std::exchange(Slot().status, absl::OkStatus());
  if (!status.ok()) return status;
  return absl::InternalError("the function failed without saying why");
}

void DropLastError() {
  absl::Status& status = Slot().status;
  if (!status.ok()) status = absl::OkStatus();
}

}  // namespace nodewise
