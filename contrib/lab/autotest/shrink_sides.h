#pragma once

#include <vector>

#include "contrib/lab/autotest/cut_case.h"

namespace nodewise {

// Returns a case that fails with smaller tensors: all sides of one size at
// once, or one side alone, made 1, 2, 3, half or one less. Inputs, constants
// and cotangents keep their first elements, or their last ones. Sizes that it
// has as numbers, such as the shape that a Reshape is told, change with
// them in some of these cases; what does not fit is refused by the operators'
// rules.
std::vector<CaseBuild> SmallerSidesOf(const FailingCase& failing);

}  // namespace nodewise
