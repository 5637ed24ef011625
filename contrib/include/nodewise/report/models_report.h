#pragma once

#include "nodewise/diagnose/answer.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Shows which layers make two models differ, what each costs, and what to keep.
// Sets no status. `most_layers` are shown in the text. The document has
// `models`.
void ShowModels(const ModelsEvidence& evidence, size_t most_layers,
                Report* report);

}  // namespace nodewise
