#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// The gradient of one operation, from oneDNN's backward primitives: what
// reaches inputs of the operation from its first output.
struct OneDnnBackwardCall {
  OpAttrs op;
  // Those of the operation, undefined for optional ones that are not given; all
  // compact and in host memory.
  absl::Span<const NDArray> inputs;
  NDArray cotangent;  // Has the output's shape and type.
  // The inputs whose gradients are asked for.
  absl::Span<const size_t> wanted;
};

// Computes the gradients that are asked for, in that order, each of its input's
// shape and type. Makes its primitives anew each time, with
// OneDnnThreads::Count() threads. Fails with kUnimplemented, giving the reason,
// for what oneDNN has no backward primitive for, which is most; and in a build
// without it. Any thread may call.
absl::StatusOr<std::vector<NDArray>> RunOneDnnBackward(
    const OneDnnBackwardCall& call);

// Returns the names of the operators that have backward primitives, for some of
// their uses at least; none in a build without oneDNN.
std::vector<std::string_view> OneDnnBackwardOperators();

}  // namespace nodewise
