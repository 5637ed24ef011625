#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the value of an input; kNoValue for one that is not given.
ValueId InputOf(const Operation& operation, size_t i);
// Returns whether it is given and of type float32.
bool IsFloatInput(const Network& network, const Operation& operation, size_t i);

// Returns which float32 inputs the operation could read in another element
// type: all of them, or all but one, or the first alone; the first of these
// that its operator takes. One of its float32 outputs must come out in that
// type, others in that type or as they are; a target of the network must run
// it. Fails, saying why, if nothing of this is possible; the reason is what the
// operator says of all its inputs.
absl::StatusOr<std::vector<bool>> InputsThatMayBe(DLDataType type,
                                                  const Network& network,
                                                  const Operation& operation);

}  // namespace nodewise
