#pragma once

#include <cstddef>

#include "nodewise/diagnose/answer.h"
#include "nodewise/diagnose/model_beside.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Returns what Diagnose() has found out as text and document
// (docs/locate.md has its members). The text has so many culprits at most.
inline constexpr size_t kShownCulprits = 10;
Report ReportOf(const Answer& answer, size_t most_culprits = kShownCulprits);

// Returns which tensors of the model, or of the build beside it, each node of a
// target holds; a long list is cut unless all lines are wanted.
Report ReportOf(const AlignAnswer& answer, bool with_all_lines);

// Shows folders that were written, and notes why others were not. The document
// has `repros` and, if inputs were kept, `kept_inputs`.
void ShowRepros(const WrittenRepros& written, Report* report);

}  // namespace nodewise
