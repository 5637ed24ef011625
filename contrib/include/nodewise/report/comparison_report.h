#pragma once

#include <cstddef>
#include <string>

#include "nodewise/compare/compare.h"
#include "nodewise/report/report.h"

namespace nodewise {

// What `nodewise compare` shows of a comparison. `max_lines` limits each list,
// 0 means all. Adds to the report's text and document.
void ShowComparison(const Comparison& comparison, size_t max_lines,
                    Report* report);

}  // namespace nodewise
