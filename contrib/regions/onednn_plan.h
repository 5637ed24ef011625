#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/regions/gelu_pattern.h"
#include "nodewise/lower/region.h"
#include "nodewise/onednn/onednn.h"

namespace nodewise {

// One input of a call: the memory of a value of the region.
struct PlannedInput {
  ValueId value = kNoValue;  // kNoValue: an optional one that is not given.
  // The call takes it as a constant. What the call holds of it in a plan is no
  // more than a tensor of its type.
  bool is_kept = false;
};

// A part of a region that is computed at once.
struct PlannedStep {
  // The first, and those that are fused behind it.
  std::vector<OperationId> operations;
  // Why oneDNN does not compute it, which is then one operation; "" if it does.
  std::string why_not;
  std::string penalty;  // Why oneDNN is slow here, if it is.

  // The rest is empty unless oneDNN computes it.
  OneDnnCall call;
  // The type of its floats. Where it is not float32, the call has them as
  // float32, and they are converted before and behind it.
  DLDataType float_type{kDLFloat, 32, 1};
  std::vector<PlannedInput> inputs;  // As OneDnnKernel::Run takes them.
  // In whose memory the result is: the value that the last operation makes, or
  // what a Transpose behind it makes of that.
  ValueId result = kNoValue;
  // Operations that are one activation of the call, if the numbers that they
  // read are the right ones.
  std::vector<GeluPattern> gelus;

  bool is_call() const { return why_not.empty(); }
  // No tensor of it has its channels last.
  bool is_plain() const;
  // As the network has it. REQUIRES: is_call().
  DLDataType OutputType() const;
  // A remark about how the step will run that is worth knowing; "" if there is
  // none.
  std::string Remark() const;
};

// Divides a region into steps, in an order in which they can run. Where its
// Transposes only say that tensors have their channels last outside, and calls
// take and make them so, no step is needed for these. Fails with kUnimplemented
// if no step is a call, or if an operation has a network inside, which only an
// interpreter can run.
absl::StatusOr<std::vector<PlannedStep>> PlanSteps(const Region& region);

// Returns the input of the call that `place` counts: those of the operation,
// then the others of what is fused.
OneDnnInput& InputOf(OneDnnCall* call, size_t place);

}  // namespace nodewise
