#pragma once

#include "nodewise/diagnose/operation_times.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Shows how long a program takes for each operation alone, the longest first,
// by kind, and what their sum says about the plain run. At most so many rows;
// 0: all. The document has `operations_alone`.
void ShowOperationTimes(const ProgramTimes& times, size_t most, Report* report);

}  // namespace nodewise
