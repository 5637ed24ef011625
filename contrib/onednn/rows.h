#pragma once

// Operators that calculate along sides: normalizations, probabilities,
// reductions.

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

// Returns the epsilon of a batch normalization that neither trains nor has
// statistics of each element; refuses others.
absl::StatusOr<float> BatchNormEpsilon(const OpAttrs& attrs);
absl::Status BuildBatchNorm(ProgramBuilder& program);
absl::Status BuildLayerNorm(ProgramBuilder& program);
absl::Status BuildLrn(ProgramBuilder& program);
absl::Status BuildSoftmax(ProgramBuilder& program);
absl::Status BuildReduction(ProgramBuilder& program);

}  // namespace nodewise::onednn
