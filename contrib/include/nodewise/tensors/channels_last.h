#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// Tensors have their channels, side 1, last in memory where kernels are faster
// so.

// Returns whether a tensor of this type is another one then: not if it has one
// channel, or nothing behind the channels.
bool HasLayouts(const TensorType& type);

// Returns the type of the tensor with its channels last.
// REQUIRES: its rank is known, and at least 2.
TensorType WithChannelsLast(const TensorType& type);

// Return what a Transpose is given to move the channels of a tensor of this
// rank behind the other sides, and back. REQUIRE: 2 <= rank.
std::vector<int64_t> SidesToChannelsLast(int rank);
std::vector<int64_t> SidesToChannelsFirst(int rank);

// Return a copy of the tensor, in host memory, with its channels moved from
// side 1 behind the others, or back from there. Fail with kInvalidArgument for
// fewer than 3 sides, and as NDArray::Empty(). REQUIRE: it is compact and in
// host memory, and its elements are whole bytes.
absl::StatusOr<NDArray> CopyToChannelsLast(const DLTensor& tensor);
absl::StatusOr<NDArray> CopyToChannelsFirst(const DLTensor& tensor);

}  // namespace nodewise
