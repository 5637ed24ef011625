#pragma once

#include "absl/types/span.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Shows which nodes are named by their values, each with what `named` has of
// where it is from, and what is known of each node. Sets no status. The
// document has `culprits`, `verdicts`, and between builds `side`.
void ShowByValue(const ValueEvidence& evidence,
                 absl::Span<const NamedCulprit> named, Report* report);

}  // namespace nodewise
