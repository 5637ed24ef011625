#pragma once

// Convolutions and pools.

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

absl::Status BuildConv(ProgramBuilder& program);
absl::Status BuildConvTranspose(ProgramBuilder& program);
absl::Status BuildMaxPool(ProgramBuilder& program);
absl::Status BuildAveragePool(ProgramBuilder& program);
absl::Status BuildGlobalPool(ProgramBuilder& program);

}  // namespace nodewise::onednn
