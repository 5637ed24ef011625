#pragma once

#include <cstddef>
#include <string>

#include "nodewise/compare/compare.h"
#include "nodewise/locate/dump_difference.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Shows a comparison, and where it begins in the graph of two dumps, which may
// be null. `max_lines` limits each list, 0 means all. Adds to the report's text
// and document.
void ShowComparison(const Comparison& comparison, const DumpDifference* where,
                    size_t max_lines, Report* report);

}  // namespace nodewise
