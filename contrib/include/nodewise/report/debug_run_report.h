#pragma once

#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/isolation.h"
#include "nodewise/report/report.h"
#include "nodewise/runner/runner.h"
#include "nodewise/sweep/sweep.h"

namespace nodewise {

// What runs that were looked into showed. Only in builds with USE_PROFILER.

// Shows whether the outputs were those of a plain run. If not, a report that
// was fine becomes kDiffers. The document has `plain_run`.
void ShowCheck(const OutputCheck& check, Report* report);

// Shows where a run stopped, and why. `looks` says whether it was to stop at
// some values. The document has `stopped_at`, `made_the_value` and
// `not_looked_at`.
void ShowStop(const RunResult& result, bool looks, Report* report);

// Show the findings, which make the report kDiffers. The document has
// `memory_faults`; `failures` and `tainted`; or `unsteady`.
void ShowSanitized(const SanitizeReport& found, Report* report);
void ShowIsolated(const IsolationReport& found, const GraphIndex& index,
                  Report* report);
void ShowSwept(const SweepReport& found, Report* report);

// Returns how many of the findings are not only changed floats.
size_t CountFaults(const std::vector<Finding>& findings);

}  // namespace nodewise
