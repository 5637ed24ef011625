#pragma once

#include <string>

#include "nodewise/autotest/autotest_run.h"
#include "nodewise/report/report.h"

namespace nodewise {

// What random tests have come to, as text and document (docs/autotest.md has
// its members). `candidate` is what was tested.
Report ReportOf(const AutotestResult& result, const std::string& candidate,
                const AutotestOptions& options);

// What one case has come to that was run alone.
Report ReportOfCase(const AutotestFinding& finding,
                    const std::string& candidate);

}  // namespace nodewise
