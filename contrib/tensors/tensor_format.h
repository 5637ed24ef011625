#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// The formats of tensor_file.h.
enum class TensorFormat { kNpy, kNpz, kParams, kPb };

// Fails with kInvalidArgument for another extension.
absl::StatusOr<TensorFormat> FormatOfExtension(const std::string& path);

// Returns the format of a file with these contents.
absl::StatusOr<TensorFormat> FormatOfFile(const std::string& path,
                                          absl::Span<const uint8_t> bytes);

// Returns kUnimplemented for a tensor whose type numpy's formats do not have;
// the other formats are not checked. The tensor's data is not read.
absl::Status CheckTensorFits(TensorFormat format, const std::string& name,
                             const DLTensor& tensor);
// Returns kInvalidArgument if a file of the format cannot hold that many.
absl::Status CheckTensorCount(TensorFormat format, size_t count);

}  // namespace nodewise
