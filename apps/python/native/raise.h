#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// The errors of the library as exceptions of Python. This is the one place that
// throws: nanobind hands exceptions on as it hands on those of Python.

// REQUIRES of all: Python's lock is held.
// Raises nodewise.Error; KeyboardInterrupt where Ctrl-C has cancelled.
[[noreturn]] void Raise(const absl::Status& status);
// Raises all faults as one Error, or the status if there are none.
[[noreturn]] void Raise(const absl::Status& status,
                        const DiagnosticList& diagnostics);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

}  // namespace nodewise
