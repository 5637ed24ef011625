#pragma once

#include "nodewise/diagnose/answer.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Shows which nodes are named by their values, and what is known of each node.
// Sets no status. The document has `culprits`, `verdicts`, and between builds
// `side`.
void ShowByValue(const ValueEvidence& evidence, Report* report);

}  // namespace nodewise
