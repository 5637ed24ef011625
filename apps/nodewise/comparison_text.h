#pragma once

#include <cstddef>
#include <string>

#include "apps/nodewise/command.h"
#include "nodewise/compare/compare.h"

namespace nodewise {

// What `nodewise compare` shows of a comparison. `max_lines` limits each list,
// 0 means all. Adds to the outcome's text and document.
void ShowComparison(const Comparison& comparison, size_t max_lines,
                    Outcome* outcome);

}  // namespace nodewise
