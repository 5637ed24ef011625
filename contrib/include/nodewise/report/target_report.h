#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/report/report.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Shows the head of a report: what was asked about, its files and its inputs.
// The document has `target`, `inputs` and, if there is one, `seed`.
void ShowTarget(const Session& session, Report* report);

// Shows inputs and where they came from.
void ShowInputs(const InputList& list, const std::vector<RunInput>& inputs,
                std::optional<uint64_t> seed, Report* report);

// Shows what computed the nodes whose functions are built in, and why others
// refused some; nothing for compiled code.
void ShowKernels(const Session& session, Report* report);

}  // namespace nodewise
