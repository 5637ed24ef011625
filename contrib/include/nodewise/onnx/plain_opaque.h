#pragma once

#include "absl/status/statusor.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {

// Returns the operation without what its node says about itself: its name, what
// its inputs and outputs were called, its comments. Attributes and bodies stay
// as they are. Fails with kDataLoss for bytes that are not such a node, and
// with kUnimplemented in builds without USE_ONNX.
absl::StatusOr<ops::Opaque> PlainOpaque(const ops::Opaque& opaque);

}  // namespace nodewise
