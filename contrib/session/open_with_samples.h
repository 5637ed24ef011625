#pragma once

#include "absl/status/statusor.h"
#include "nodewise/session/session.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// Opens a target with the samples in the folder of the spec. A target that
// leaves sizes open takes those of the first sample that can be read. Fails as
// ListSamples() and OpenWithoutInputs().
absl::StatusOr<Session> OpenWithSamples(const TargetSpec& spec,
                                        DiagnosticList* diagnostics);

}  // namespace nodewise
