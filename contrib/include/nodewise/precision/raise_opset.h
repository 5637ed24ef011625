#pragma once

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns a network in opset `version` of domain "" whose outputs are the same,
// bit for bit. Operations that mean something else there are replaced by others
// that compute the same, in bodies too; they and their results keep their
// names. What no output depends on is removed, and numbers are new. Fails with
// kInvalidArgument, naming the operation, if one has no equal there.
absl::StatusOr<Network> InOpset(const Network& network, int version);

}  // namespace nodewise
