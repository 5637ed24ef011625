#pragma once

#include <atomic>

namespace nodewise {

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
