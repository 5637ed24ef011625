#include "contrib/tensors/npy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "contrib/tensors/npy_header.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns the size of the data, from the header. A dimension of 0 must not hide
// others that no memory could hold: numpy refuses these, and strides would
// overflow.
absl::StatusOr<size_t> DataBytes(const NpyHeader& header) {
  std::vector<int64_t> shape = header.shape;
  std::replace(shape.begin(), shape.end(), int64_t{0}, int64_t{1});
  NODEWISE_RETURN_IF_ERROR(TensorBytes(shape, header.dtype).status());
  return TensorBytes(header.shape, header.dtype);
}

void SwapBytes(const NDArray& tensor) {
  const size_t parts = tensor.dtype().code == kDLComplex ? 2 : 1;
  const size_t width = ElementBytes(tensor.dtype()) / parts;
  uint8_t* const data = tensor.As<uint8_t>();
  const size_t size = tensor.bytes();
  for (size_t at = 0; at < size; at += width) {
    std::reverse(data + at, data + at + width);
  }
}

absl::StatusOr<NDArray> ToTensor(const NpyHeader& header,
                                 absl::Span<const uint8_t> data) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            NDArray::Empty(header.shape, header.dtype, kCpu));
  DLTensor source = *tensor;
  source.data = const_cast<uint8_t*>(data.data());
  std::vector<int64_t> strides;
  if (header.fortran_order) {
    int64_t stride = 1;
    for (const int64_t dim : header.shape) {
      strides.push_back(stride);
      stride *= std::max<int64_t>(dim, 1);
    }
    source.strides = strides.data();
  }
  NODEWISE_RETURN_IF_ERROR(CopyTensor(source, *tensor));
  if (header.big_endian) SwapBytes(tensor);
  return tensor;
}

}  // namespace

absl::StatusOr<NDArray> ParseNpy(absl::Span<const uint8_t> bytes,
                                 std::string where) {
  ByteReader reader(bytes, std::move(where));
  NODEWISE_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(&reader));
  const size_t start = reader.offset();
  const auto size = DataBytes(header);
  if (!size.ok()) return reader.ErrorAt(start, MessageOf(size.status()));
  NODEWISE_ASSIGN_OR_RETURN(const auto data, reader.Bytes("array data", *size));
  if (reader.left() > 0) {
    return reader.ErrorAt(
        reader.offset(),
        fmt::format("{} bytes follow the array of {}, expected none",
                    reader.left(), TypeToString(header.shape, header.dtype)));
  }
  auto tensor = ToTensor(header, data);
  if (!tensor.ok()) return At(reader.where(), tensor.status());
  return tensor;
}

absl::StatusOr<NDArray> HostTensor(const NDArray& tensor) {
  if (DeviceTypeOf(tensor.device()) == kDLCPU && IsCompact(*tensor)) {
    return tensor;
  }
  return tensor.CopyToHost();
}

absl::Status WriteNpy(const NDArray& tensor, OutputFile* file) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string header,
                            MakeNpyHeader(tensor.shape(), tensor.dtype()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor));
  NODEWISE_RETURN_IF_ERROR(file->Write(header));
  return file->Write(host.data(), host.bytes());
}

}  // namespace nodewise
