#include "nodewise/ndarray/record.h"

#include <dmlc/io.h>

#include "fmt/format.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;

// TVM counts ceil(bits / 8) bytes an element and forgets the lanes, so it saves
// vector types cut short. A scalar type is the same either way.
absl::Status CheckDataBytes(const ByteReader& reader, size_t offset,
                            const TensorRecord& record, uint64_t bytes) {
  const auto wanted = TensorBytes(record.shape, record.dtype);
  if (!wanted.ok()) return reader.ErrorAt(offset, MessageOf(wanted.status()));
  if (bytes == *wanted) return absl::OkStatus();
  const std::string cut =
      record.dtype.lanes > 1 && bytes * record.dtype.lanes == *wanted
          ? " (TVM saves vector types without their lanes; store the tensor "
            "with a scalar type)"
          : "";
  return reader.ErrorAt(
      offset, fmt::format("tensor {} has {} data bytes, expected {}{}",
                          TypeToString(record.shape, record.dtype), bytes,
                          *wanted, cut));
}

// TVM writes its device here, and only the CPU's memory can be in a file.
absl::Status ReadHeader(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t magic,
                            reader->Read<uint64_t>("tensor magic"));
  if (magic != kTensorMagic) {
    return reader->ErrorAt(
        start, fmt::format("tensor magic is {:016x}, expected {:016x}", magic,
                           kTensorMagic));
  }
  NODEWISE_RETURN_IF_ERROR(
      reader->Read<uint64_t>("tensor reserved field").status());
  const size_t device = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const int32_t type,
                            reader->Read<int32_t>("tensor device type"));
  NODEWISE_RETURN_IF_ERROR(
      reader->Read<int32_t>("tensor device number").status());
  if (type == kDLCPU) return absl::OkStatus();
  return reader->ErrorAt(
      device,
      fmt::format("tensor is on device type {}, expected 1 (cpu)", type));
}

}  // namespace

DLTensor TensorRecord::ToTensor() const {
  return TensorOver(data.data(), shape, dtype, kCpu);
}

// The fields are checked in the order of the file, each before the next is
// used: the rank against the bytes that are left before the shape is reserved,
// the type before its width counts, the size against the shape before the data
// are taken. The data stay where they are in the file.
absl::StatusOr<TensorRecord> ReadTensorRecord(ByteReader* reader) {
  TensorRecord record;
  NODEWISE_RETURN_IF_ERROR(ReadHeader(reader));
  const size_t rank_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const int32_t rank,
                            reader->Read<int32_t>("tensor rank"));
  const size_t type_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(record.dtype.code,
                            reader->Read<uint8_t>("tensor type code"));
  NODEWISE_ASSIGN_OR_RETURN(record.dtype.bits,
                            reader->Read<uint8_t>("tensor type bits"));
  NODEWISE_ASSIGN_OR_RETURN(record.dtype.lanes,
                            reader->Read<uint16_t>("tensor type lanes"));
  if (const auto status = CheckDType(record.dtype); !status.ok()) {
    return reader->ErrorAt(type_at, MessageOf(status));
  }
  if (rank < 0 || static_cast<uint64_t>(rank) > reader->left() / 8) {
    const std::string message = fmt::format(
        "tensor rank is {}, but {} bytes are left", rank, reader->left());
    return rank < 0 ? reader->ErrorAt(rank_at, message)
                    : reader->RanOut(rank_at, message);
  }
  record.shape.resize(static_cast<size_t>(rank));
  for (int64_t& dim : record.shape) {
    NODEWISE_ASSIGN_OR_RETURN(dim, reader->Read<int64_t>("tensor shape"));
  }
  const size_t size_at = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t bytes,
                            reader->Read<uint64_t>("tensor data size"));
  NODEWISE_RETURN_IF_ERROR(CheckDataBytes(*reader, size_at, record, bytes));
  NODEWISE_ASSIGN_OR_RETURN(record.data, reader->Bytes("tensor data", bytes));
  return record;
}

void WriteRecordHead(absl::Span<const int64_t> shape, DLDataType dtype,
                     dmlc::Stream* stream) {
  stream->Write(kTensorMagic);
  stream->Write(uint64_t{0});
  stream->Write(int32_t{kDLCPU});
  stream->Write(int32_t{0});
  stream->Write(static_cast<int32_t>(shape.size()));
  stream->Write(dtype.code);
  stream->Write(dtype.bits);
  stream->Write(dtype.lanes);
  for (const int64_t dim : shape) stream->Write(dim);
  stream->Write(static_cast<uint64_t>(TensorBytes(shape, dtype).value()));
}

void WriteTensorRecord(const DLTensor& tensor, dmlc::Stream* stream) {
  NODEWISE_CHECK(DeviceTypeOf(tensor.device) == kDLCPU && IsCompact(tensor));
  WriteRecordHead(ShapeOf(tensor), tensor.dtype, stream);
  stream->Write(DataOf(tensor), TensorBytes(tensor).value());
}

}  // namespace nodewise
