#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/support/byte_reader.h"

namespace dmlc {
class Stream;
}

namespace nodewise {

// One tensor's bytes as they stand in .params files and in module blobs; the
// fields are in docs/formats/params.md.
struct TensorRecord {
  DLDataType dtype{};
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> data;  // Borrowed; at any alignment.

  // The record as a tensor that borrows `data`; valid while this is.
  DLTensor ToTensor() const;
};

// The least a record takes: a scalar of one byte.
inline constexpr uint64_t kLeastRecordBytes = 41;

absl::StatusOr<TensorRecord> ReadTensorRecord(ByteReader* reader);

// Writes what stands before the data of a compact tensor.
void WriteRecordHead(absl::Span<const int64_t> shape, DLDataType dtype,
                     dmlc::Stream* stream);

// Writes a tensor in host memory. REQUIRES: it is compact.
void WriteTensorRecord(const DLTensor& tensor, dmlc::Stream* stream);

}  // namespace nodewise
