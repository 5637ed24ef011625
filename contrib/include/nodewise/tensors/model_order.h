#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

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
