#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Returns the tensors of one of ONNX's messages, recognised by what is in it: a
// TensorProto, or the initializers of a GraphProto or a ModelProto, the form in
// which Glow keeps the inputs of a run. They own their memory. A tensor without
// a name has an empty one. `where` names the bytes in messages. Fails with
// kInvalidArgument for a message without tensors, and as ParseTensorProto().
absl::StatusOr<std::vector<NamedTensor>> ParseTensorGroup(
    absl::Span<const uint8_t> bytes, const std::string& where);

// Reads a file of tensors: one that ReadTensorFile() recognises by its first
// bytes, or one of these messages.
absl::StatusOr<std::vector<NamedTensor>> ReadTensorGroup(
    const std::string& path);

}  // namespace nodewise
