#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Runs a network that cannot become a graph, since its sizes are not known
// before it runs, with the interpreter, and shows target and inputs. `output`
// is where the caller will write the outputs, checked before the run.
absl::StatusOr<RunResult> RunInterpreted(const std::string& path,
                                         const Session& session,
                                         const InputOptions& inputs,
                                         const std::string& output,
                                         uint64_t repeats, Outcome* outcome);

}  // namespace nodewise
