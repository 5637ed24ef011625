#pragma once

// Integers with scales.

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

absl::Status BuildQuantize(ProgramBuilder& program);
absl::Status BuildDequantize(ProgramBuilder& program);
absl::Status BuildConvInteger(ProgramBuilder& program);
absl::Status BuildQLinearConv(ProgramBuilder& program);
absl::Status BuildMatMulInteger(ProgramBuilder& program);
absl::Status BuildQLinearMatMul(ProgramBuilder& program);

}  // namespace nodewise::onednn
