#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/lab/autotest/shrink_case.h"

namespace nodewise {

// Makes a case that is to be tried.
using CaseBuild = std::function<absl::StatusOr<FailingCase>()>;

// Returns smaller parts of a network that fails, those first that say most:
// each operation alone, each tensor on the way as the only output, all but one
// operation. A tensor whose operation is cut off becomes an input, which holds
// what the reference makes; so an operation is never blamed for those before
// it. Empty for one operation.
std::vector<CaseBuild> CutsOf(const FailingCase& failing);

}  // namespace nodewise
