#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A call of a node's function: tensors that are lent for the call alone.
struct NodeCall {
  std::vector<NDArray> inputs;
  std::vector<NDArray> outputs;
};

// Calls the function of a node with these tensors.
absl::Status CallNode(const PackedFunc& function, const NodeCall& call);

// Returns a function that does what `body` does with the tensors that it is
// called with, of which the last `num_outputs` are the outputs.
using NodeBody = std::function<absl::Status(const NodeCall& call)>;
PackedFunc NodeFunction(size_t num_outputs, NodeBody body);

// Returns a function that calls `sound`, and then `spoil` on what it has made.
PackedFunc WithOutputsSpoiled(PackedFunc sound, size_t num_outputs,
                              NodeBody spoil);

// Returns a function that calls `sound` with other inputs: `replace` may put
// other tensors of the same types into the call. Inputs that are lent must not
// be written to.
PackedFunc WithInputsReplaced(
    PackedFunc sound, size_t num_outputs,
    std::function<absl::Status(NodeCall* call)> replace);

// Writes the bytes of one compact tensor into another of the same size.
void CopyBytes(const NDArray& from, const NDArray& to);

}  // namespace nodewise
