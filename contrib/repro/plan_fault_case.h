#pragma once

#include "absl/status/status.h"
#include "nodewise/op/op_def.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Sets what the reader of a tensor that is written over makes, beside what the
// reference makes of the same nodes with memory of its own for each tensor.
// Fails as running either does. REQUIRES: plan_fault.
absl::Status JudgePlanFault(const OpSet& operators, ReproCase* node_case);

}  // namespace nodewise
