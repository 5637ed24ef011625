#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Returns OK unless one of the inputs holds a NaN: then what it reaches has not
// been judged, since a NaN on both sides counts as equal, and runs that seem to
// agree say little. Fails with kFailedPrecondition, naming the input and the
// first such element.
absl::Status CheckGivenNumbers(absl::Span<const NamedTensor> inputs);

}  // namespace nodewise
