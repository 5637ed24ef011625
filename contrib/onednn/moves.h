#pragma once

// Operators that move elements, or change their type.

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

absl::Status BuildConcat(ProgramBuilder& program);
absl::Status BuildTranspose(ProgramBuilder& program);
// Keep the elements and their order: Reshape, Flatten, Squeeze, Unsqueeze.
absl::Status BuildReshape(ProgramBuilder& program);
// From one layout to the other.
absl::Status BuildIdentity(ProgramBuilder& program);
absl::Status BuildCast(ProgramBuilder& program);
absl::Status BuildResize(ProgramBuilder& program);

}  // namespace nodewise::onednn
