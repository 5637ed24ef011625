#pragma once

// What If, Loop and Scan share; only for their files.

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// Fails with kInvalidArgument if there is no body, or if it does not take
// `inputs` tensors besides its captures.
absl::Status CheckBody(const char* attribute, const Subgraph& body,
                       size_t inputs);
// Fails with kInvalidArgument if input `slot` cannot be what input `number` of
// the body says.
absl::Status RequireBodyType(const Inputs& in, size_t slot,
                             const Subgraph& body, size_t number);
absl::Status RequireCount(const Inputs& in, size_t count);
std::vector<TensorType> OutputTypesOf(const Subgraph& body);

// Runs a body whose captures are the operation's inputs from `first` on. Errors
// name the body.
absl::StatusOr<std::vector<NDArray>> RunBody(EvalArgs& args,
                                             const Subgraph& body,
                                             std::vector<NDArray> inputs,
                                             size_t first);

// Returns the type with one more side.
TensorType Stacked(TensorType type, int64_t axis, const Dim& count);
// Makes output `i` by stacking what the trips made along a new side `axis`,
// counted from the end of the output if below 0. Without any trip, `type` gives
// the type of an element; its unknown sides become 0.
absl::Status StackOutput(EvalArgs& args, size_t i,
                         const std::vector<NDArray>& elements, int64_t axis,
                         const TensorType& type);
// Returns the slice at `index` of a side, without that side.
absl::StatusOr<NDArray> SliceAt(const NDArray& tensor, int axis, int64_t index);

}  // namespace nodewise
