#pragma once

// Convolutions and pools.

#include "contrib/onednn/program.h"
#include "nodewise/ops/pool.h"

namespace nodewise::onednn {

// Places the windows of a pool; `reaches_beyond` tells whether the last of them
// ends beyond the padding that the operator has.
absl::Status PlacePool(const Call& call, const ops::PoolAttributes& op,
                       PoolSpec* spec, bool* reaches_beyond);

absl::Status BuildConv(ProgramBuilder& program);
absl::Status BuildConvTranspose(ProgramBuilder& program);
absl::Status BuildMaxPool(ProgramBuilder& program);
absl::Status BuildAveragePool(ProgramBuilder& program);
absl::Status BuildGlobalPool(ProgramBuilder& program);

}  // namespace nodewise::onednn
