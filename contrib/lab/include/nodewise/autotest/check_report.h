#pragma once

#include "nodewise/autotest/check_adapter.h"
#include "nodewise/report/report.h"

namespace nodewise {

// What was found out about an adapter, as text and document (docs/adapters.md
// has its members).
Report ReportOf(const AdapterCheck& check, const AdapterCheckOptions& options);

}  // namespace nodewise
