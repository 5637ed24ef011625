#pragma once

#include "apps/nodewise/command.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Shows whether the outputs were those of a plain run. If not, an outcome that
// was fine becomes kDiffers.
void ShowCheck(const OutputCheck& check, Outcome* outcome);

}  // namespace nodewise
