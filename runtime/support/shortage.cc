#include "nodewise/support/shortage.h"

#include <mutex>
#include <utility>

#include "nodewise/support/exceptions.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct First {
  std::mutex mutex;
  std::optional<absl::Status> shortage;  // mutex
};

First& TheFirst() {
  static auto* const first = new First();
  return *first;
}

}  // namespace

absl::Status Shortage(std::string text) {
  absl::Status status = absl::ResourceExhaustedError(std::move(text));
  First& first = TheFirst();
  const std::lock_guard lock(first.mutex);
  if (!first.shortage.has_value()) {
    first.shortage =
        WorkingOn::Place().empty() ? status : At(WorkingOn::Place(), status);
  }
  return status;
}

std::optional<absl::Status> FirstShortage() {
  First& first = TheFirst();
  const std::lock_guard lock(first.mutex);
  return first.shortage;
}

}  // namespace nodewise
