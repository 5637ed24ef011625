#pragma once

#include <vector>

#include "nodewise/op/op_def.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Returns what of its network a case still has whose names are hidden.
std::vector<KeptPart> KeptPartsOf(const ReproCase& node_case,
                                  const OpSet& operators);

}  // namespace nodewise
