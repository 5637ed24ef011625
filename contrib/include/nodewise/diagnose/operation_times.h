#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/session/session.h"

namespace nodewise {

// How long another program takes for a model, and for each of its operations.
// It hands out no times of what is inside, so every operation runs there once
// more, alone, as a model of its own.

struct OperationTime {
  std::string name;
  std::string kind;
  double us = 0;        // The median of its runs.
  std::string why_not;  // Why there is no time; empty if there is one.
};

struct ProgramTimes {
  std::string runtime;  // What the program calls itself; may be empty.
  double plain_us = 0;  // The model as it is, the median of its runs.
  std::vector<OperationTime> operations;  // In the order of the model.
  double sum_us = 0;

  size_t CountUntimed() const;
};

// Times the program of a session, each model so often after one run that does
// not count. What operations read is what the reference makes of the session's
// inputs. `progress` may be null. Fails as the reference and the program do for
// the whole model; with kUnimplemented if the program says no times of its own,
// since those of a whole process tell nothing. What an operation alone fails
// with is in `why_not`.
absl::StatusOr<ProgramTimes> TimeOperations(
    const Session& session, uint64_t repeats,
    const std::function<void(size_t done, size_t all)>& progress);

}  // namespace nodewise
