#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

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

}  // namespace nodewise
