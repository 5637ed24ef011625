#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "nodewise/graph/finding.h"

namespace nodewise {

// Runs `work`, which may call code that does anything to its process, in a
// forked process, and returns its exit status. If that process ends before
// `work` has returned, this one still says so: it calls `show` with what
// happened and returns the status that `show` does. No code but ours ever runs
// here.
//
// For the caller of the command nothing changes: signals, stops and their ends
// are passed on in both directions. The process ends by the signal that the
// forked one was sent from outside, or that a fault of our own caused.
//
// Returns in both processes. Runs `work` here if there can be no other process.
// REQUIRES: this process has one thread. Called once.
int RunSupervised(absl::FunctionRef<int()> work,
                  absl::FunctionRef<int(const Finding&)> show);

// Whether this is the forked process, whose end another one waits for.
bool IsSupervised();

// In the forked process, before it ends: that is for lack of memory.
void NoteShortMemory();

// Says so if a thread that a function has left behind has crashed, which then
// does not end the process; else empty.
std::string NoteOfLeftThread();

}  // namespace nodewise
