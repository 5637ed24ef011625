#pragma once

#include <string>

#include "nodewise/autotest/learn_deviations.h"
#include "nodewise/report/report.h"

namespace nodewise {

// What was learned, as text and document (docs/known_deviations.md has its
// members). `file` is where the rows are; empty: nowhere.
Report ReportOf(const Learned& learned, const LearnOptions& options,
                const std::string& file);

}  // namespace nodewise
