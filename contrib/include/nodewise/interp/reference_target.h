#pragma once

#include "nodewise/ir/target.h"

namespace nodewise {

// The reference evaluator (evaluator.h) as a target of networks, called
// "reference". It lives as long as the program.
const Target& ReferenceTarget();

}  // namespace nodewise
