#pragma once

#include "apps/nodewise/command.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

// Shows the culprits, then how many nodes have which verdict, then whether the
// outputs differ; and sets the status. The document has `culprits` and
// `verdicts`.
void ShowLocated(const LocateResult& result, Outcome* outcome);

}  // namespace nodewise
