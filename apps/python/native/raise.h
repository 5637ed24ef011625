#pragma once

#include <atomic>
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

// Ctrl-C ends a run of compiled code between two nodes, and not only when the
// run is over: Python's own handler just makes a note of it. Ours sets a flag
// that executors look at, and calls Python's.

// Puts our handler before Python's. Does nothing if it stands there already, or
// if Ctrl-C is not Python's.
void WatchInterrupts();

// A run on this thread. Only those of the main thread are interrupted, as
// Python interrupts nothing else. They cost no call of the system.
class InterruptibleRun {
 public:
  InterruptibleRun();
  ~InterruptibleRun();
  InterruptibleRun(const InterruptibleRun&) = delete;
  InterruptibleRun& operator=(const InterruptibleRun&) = delete;

  // True from an interrupt to the end of the run.
  static const std::atomic<bool>& is_interrupted();
};

}  // namespace nodewise
