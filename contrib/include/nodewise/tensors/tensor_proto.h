#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// ONNX's bytes hold two elements of 4 bits or four of 2, the first one in the
// lowest bits; in memory each has a byte. Any thread may call.

// Returns how many bytes ONNX stores `elements` of a type in: packed ones if it
// has 2 or 4 bits.
size_t OnnxBytes(DLDataType dtype, int64_t elements);
// Returns whether that packs them.
bool IsPackedByOnnx(DLDataType dtype);

// Copies ONNX's bytes into a tensor. Bits behind the last element mean nothing.
// REQUIRES: there are OnnxBytes() of them, and `to` is compact.
void UnpackElements(absl::Span<const uint8_t> bytes, const NDArray& to);

// Returns the bytes that ONNX stores a tensor in. Fails with kInvalidArgument
// for an integer that does not fit the bits of its type.
// REQUIRES: the tensor is compact and in the host's memory.
absl::StatusOr<std::string> OnnxDataOf(const NDArray& tensor);

// ONNX's TensorProto, the form that tensors have in models and in .pb files.
// Any thread may call.

// The fields of a TensorProto, wherever it is stored. The data is in one of the
// lists; which one it may be depends on the type.
struct TensorFields {
  std::string_view name;
  absl::Span<const int64_t> dims;
  int64_t data_type = 0;
  absl::Span<const float> floats;
  absl::Span<const int32_t> int32s;
  absl::Span<const int64_t> int64s;
  absl::Span<const double> doubles;
  absl::Span<const uint64_t> uint64s;
  absl::Span<const uint8_t> raw;
  bool has_raw = false;
};

// Makes a tensor of these fields. With an owner it may borrow what `raw` points
// to and must not be written to; otherwise it owns its memory. Nothing is
// allocated for data that is missing. Fails with kDataLoss for sizes that do
// not fit and elements out of range, otherwise as DTypeFromOnnx does
// (tensor_type.h).
absl::StatusOr<NDArray> MakeTensor(const TensorFields& fields,
                                   const std::shared_ptr<void>& owner);

// Parses the bytes of a TensorProto into a tensor that owns its memory; `where`
// names them in messages. Fails with kDataLoss, giving the byte, for anything
// else.
absl::StatusOr<NamedTensor> ParseTensorProto(absl::Span<const uint8_t> bytes,
                                             std::string where);
// Fails with kUnimplemented for types that ONNX does not have or that are
// refused.
absl::StatusOr<std::string> WriteTensorProto(const NamedTensor& tensor);

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
