#pragma once

// What a call computes, by the operators' own evaluation.

#include "nodewise/onednn/onednn.h"

namespace nodewise::onednn {

// `inputs` and `output` are as in OneDnnKernel::Run. Fails as the operators'
// evaluation does.
absl::Status EvaluateCall(const OneDnnCall& call,
                          absl::Span<const NDArray> inputs,
                          const NDArray& output);

}  // namespace nodewise::onednn
