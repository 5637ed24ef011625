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

// One tensor as stored in .params files and in module blobs;
// docs/formats/params.md describes the fields.
struct TensorRecord {
  DLDataType dtype{};
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> data;  // Borrowed; at any alignment.

  // Returns the record as a tensor that borrows `data`; valid while this is.
  DLTensor ToTensor() const;
};

// The minimum size of a record: that of a scalar of one byte.
inline constexpr uint64_t kLeastRecordBytes = 41;

absl::StatusOr<TensorRecord> ReadTensorRecord(ByteReader* reader);

// Writes what precedes the data of a compact tensor.
void WriteRecordHead(absl::Span<const int64_t> shape, DLDataType dtype,
                     dmlc::Stream* stream);

// Writes a tensor in host memory. REQUIRES: it is compact.
void WriteTensorRecord(const DLTensor& tensor, dmlc::Stream* stream);

}  // namespace nodewise
