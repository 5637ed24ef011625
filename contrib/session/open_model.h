#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Opens a model, lowered to a graph, or a network where the spec keeps it so.
absl::StatusOr<Session> OpenModel(const TargetSpec& spec, InputFiles* files,
                                  DiagnosticList* diagnostics);

// Puts the reference in the place of the nodes that the expressions choose.
// Fails as ChooseNodes(), and for a model that is not a graph.
absl::Status StandIn(const std::vector<std::string>& expressions,
                     Session* session);

}  // namespace nodewise
