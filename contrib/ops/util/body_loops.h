#pragma once

// What If, Loop and Scan share; for these files alone.

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// kInvalidArgument if there is no body, or if it takes other than `inputs`
// tensors besides its captures.
absl::Status CheckBody(const char* attribute, const Subgraph& body,
                       size_t inputs);
absl::Status RequireCount(const Inputs& in, size_t count);
std::vector<TensorType> OutputTypesOf(const Subgraph& body);

// Runs it; its captures are the operation's inputs from `first` on. Errors name
// the body.
absl::StatusOr<std::vector<NDArray>> RunBody(EvalArgs& args,
                                             const Subgraph& body,
                                             std::vector<NDArray> inputs,
                                             size_t first);

// A type with one more side.
TensorType Stacked(TensorType type, int64_t axis, const Dim& count);
// Makes output `i` of what the trips made, stacked along a new side `axis`,
// counted from the end of the output if below 0. Without any trip the `type` of
// an element counts, sides that are not known being 0.
absl::Status StackOutput(EvalArgs& args, size_t i,
                         const std::vector<NDArray>& elements, int64_t axis,
                         const TensorType& type);
// The slice at `index` of a side, which goes.
absl::StatusOr<NDArray> SliceAt(const NDArray& tensor, int axis, int64_t index);

}  // namespace nodewise
