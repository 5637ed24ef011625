#pragma once

#include "absl/status/statusor.h"
#include "nodewise/autotest/backward.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the gradient of a network as a case. The configuration's inputs that
// are given and no constants are those of the network, in its order; those that
// are floats and need not be whole are differentiated. Fails as BackwardOf().
absl::StatusOr<OperatorCase> GradientCaseOf(Configuration configuration,
                                            Network forward);

// Returns the network whose operations a case is about: what is differentiated,
// or else what runs.
const Network& SubjectOf(const OperatorCase& made);

}  // namespace nodewise
