#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_source.h"
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

// A compiled network may have tensors whose channels are last where its model
// has them in side 1 (TensorItem::has_channels_last). People know the model:
// what they see and give has its order.

// Returns a source of the same tensors in the order that the model has them. A
// tensor that was moved has no hash and no statistics. The source can only be
// visited.
std::unique_ptr<TensorSource> InModelOrder(
    std::unique_ptr<TensorSource> source);

// Return a tensor of an entry as the model has it, and one of the model as the
// entry has it. Without a difference that is the tensor itself. Fail as
// CopyToChannelsFirst(). REQUIRE: it is compact and in host memory.
absl::StatusOr<NDArray> InModelOrder(const GraphIndex& index, EntryId entry,
                                     const NDArray& tensor);
absl::StatusOr<NDArray> InStoredOrder(const GraphIndex& index, EntryId entry,
                                      const NDArray& tensor);

}  // namespace nodewise
