#pragma once

#include <string>
#include <vector>

#include "tests/measure/case.h"

namespace nodewise {

// The tables of what came out: recall, exact culprits, inconclusive verdicts
// and time by method, by kind of fault and by network, and false alarms by
// precision.
std::string Tables(const std::vector<Result>& results);

// Returns the results that are not as they must be: a fault with a large effect
// that is not named exactly, a clean run in which a node is, a case that
// could not be judged. An inconclusive verdict is none of these as long as no
// more than one in a hundred such faults has one.
std::vector<Result> Failures(const std::vector<Result>& results);

}  // namespace nodewise
