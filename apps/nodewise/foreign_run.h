#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/nodewise/foreign_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Runs a model in another program, once with each call; `target` is that of
// `loaded`, or one with other values observed.
absl::StatusOr<RunResult> RunForeign(const LoadedForeign& loaded,
                                     const ForeignTarget& target,
                                     const RunOptions& options);

// Shows whether the outputs of a run that was looked into are those of one that
// was not. If they differ by more than rounding does, an outcome that was fine
// becomes kDiffers.
void ShowUnseenCheck(absl::Span<const NamedTensor> seen,
                     absl::Span<const NamedTensor> unseen, Outcome* outcome);

}  // namespace nodewise
