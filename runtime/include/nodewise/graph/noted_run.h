#pragma once

#include <optional>
#include <string>

#include "nodewise/support/float_environment.h"

namespace nodewise {

// While one exists a tool runs compiled code from its first node on. Like the
// first run of a process, each begins in the floating-point environment that
// loading the libraries has left, regardless of what another run has left
// since, so that two can be compared. Does nothing in a thread of a host, whose
// runs leave what they leave.
class NotedRun {
 public:
  // At the end, NoteFloatFinding() gets what the run has left, with this name
  // of the network; empty: nothing is noted, since each node is looked at.
  explicit NotedRun(std::string network);
  NotedRun(const NotedRun&) = delete;
  NotedRun& operator=(const NotedRun&) = delete;
  ~NotedRun();

 private:
  const std::string network_;
  const FloatEnvironment before_;
  std::optional<KeepCandidateFloats> kept_;
};

}  // namespace nodewise
