#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/session/session.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// Opens a model, lowered to a graph, or a network where the spec keeps it so.
absl::StatusOr<Session> OpenModel(const TargetSpec& spec, InputFiles* files,
                                  DiagnosticList* diagnostics);

// Collects the inputs; all faults go into `diagnostics`, and the status is the
// first of them.
absl::StatusOr<std::vector<RunInput>> CheckedInputs(
    const InputSpec& spec, const InputList& list, const InputFiles& files,
    DiagnosticList* diagnostics);

// Puts the reference in the place of the nodes that the expressions choose.
// Fails as ChooseNodes(), and for a model that is not a graph.
absl::Status StandIn(const std::vector<std::string>& expressions,
                     Session* session);

}  // namespace nodewise
