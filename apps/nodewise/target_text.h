#pragma once

#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Shows the head of a report: the target and its files, the inputs.
void ShowTarget(const Session& session, const InputOptions& options,
                Outcome* outcome);
// Shows inputs and where they came from.
void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                const InputOptions& options, Outcome* outcome);
// Shows what computed the nodes whose functions are built in, and why others
// refused some; nothing for compiled code.
void ShowKernels(const Session& session, Outcome* outcome);

}  // namespace nodewise
