// A TensorProto from and to protobuf's wire format, without protobuf: a tensor
// file needs no more than this one message.

#include <bit>
#include <cstring>
#include <vector>

#include "contrib/tensors/npy.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/packed_elements.h"
#include "nodewise/tensors/tensor_proto.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

enum Field {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
};

absl::StatusOr<uint64_t> ReadVarint(ByteReader* reader, const char* what) {
  const size_t start = reader->offset();
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    NODEWISE_ASSIGN_OR_RETURN(const uint8_t byte, reader->Read<uint8_t>(what));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return reader->ErrorAt(start, fmt::format("{} is a number of more than 10 "
                                            "bytes, expected fewer",
                                            what));
}

// The message's fields, gathered until all of it is read.
struct Gathered {
  std::vector<int64_t> dims;
  std::vector<float> floats;
  std::vector<int32_t> int32s;
  std::vector<int64_t> int64s;
  std::vector<double> doubles;
  std::vector<uint64_t> uint64s;
  TensorFields fields;
};

class WireReader {
 public:
  WireReader(absl::Span<const uint8_t> bytes, std::string where)
      : reader_(bytes, std::move(where)) {}

  absl::Status Read(Gathered* to) {
    while (reader_.left() > 0) {
      NODEWISE_RETURN_IF_ERROR(ReadField(to));
    }
    to->fields.dims = to->dims;
    to->fields.floats = to->floats;
    to->fields.int32s = to->int32s;
    to->fields.int64s = to->int64s;
    to->fields.doubles = to->doubles;
    to->fields.uint64s = to->uint64s;
    return absl::OkStatus();
  }

 private:
  absl::Status ReadField(Gathered* to) {
    const size_t start = reader_.offset();
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t tag, ReadVarint(&reader_, "tag"));
    const auto wire = static_cast<WireType>(tag & 7);
    switch (tag >> 3) {
      case kDims:
        return ReadNumbers(wire, "dims", &to->dims);
      case kFloatData:
        return ReadFixed(wire, kFixed32, "float_data", &to->floats);
      case kInt32Data:
        return ReadNumbers(wire, "int32_data", &to->int32s);
      case kInt64Data:
        return ReadNumbers(wire, "int64_data", &to->int64s);
      case kDoubleData:
        return ReadFixed(wire, kFixed64, "double_data", &to->doubles);
      case kUint64Data:
        return ReadNumbers(wire, "uint64_data", &to->uint64s);
      case kDataType:
        return ReadDataType(wire, &to->fields);
      case kName:
        return ReadName(wire, &to->fields);
      case kRawData:
        to->fields.has_raw = true;
        return ReadBytes(wire, "raw_data", &to->fields.raw);
      case kSegment:
        return reader_.ErrorAt(start,
                               "is a segment of a tensor, expected all "
                               "of it");
      case kExternalData:
        return reader_.ErrorAt(start,
                               "has its data in another file, expected "
                               "it here (only models may do that)");
      default:
        return Skip(wire, start);
    }
  }

  absl::Status WrongWire(const char* what, WireType wire) const {
    return reader_.ErrorAt(
        reader_.offset(),
        fmt::format("{} has wire type {}, which it cannot have (is this a "
                    "TensorProto?)",
                    what, static_cast<int>(wire)));
  }

  absl::Status ReadBytes(WireType wire, const char* what,
                         absl::Span<const uint8_t>* to) {
    if (wire != kBytes) return WrongWire(what, wire);
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t size, ReadVarint(&reader_, what));
    NODEWISE_ASSIGN_OR_RETURN(*to, reader_.Bytes(what, size));
    return absl::OkStatus();
  }

  absl::Status ReadDataType(WireType wire, TensorFields* to) {
    if (wire != kVarint) return WrongWire("data_type", wire);
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t number,
                              ReadVarint(&reader_, "data_type"));
    to->data_type = static_cast<int32_t>(number);
    return absl::OkStatus();
  }

  absl::Status ReadName(WireType wire, TensorFields* to) {
    absl::Span<const uint8_t> bytes;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(wire, "name", &bytes));
    to->name = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return absl::OkStatus();
  }

  // Reads numbers one by one, or many after a length.
  template <typename T>
  absl::Status ReadNumbers(WireType wire, const char* what,
                           std::vector<T>* to) {
    if (wire == kVarint) {
      NODEWISE_ASSIGN_OR_RETURN(const uint64_t value,
                                ReadVarint(&reader_, what));
      to->push_back(static_cast<T>(value));
      return absl::OkStatus();
    }
    absl::Span<const uint8_t> bytes;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(wire, what, &bytes));
    ByteReader packed(bytes, reader_.where(), reader_.offset() - bytes.size());
    while (packed.left() > 0) {
      NODEWISE_ASSIGN_OR_RETURN(const uint64_t value,
                                ReadVarint(&packed, what));
      to->push_back(static_cast<T>(value));
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status ReadFixed(WireType wire, WireType single, const char* what,
                         std::vector<T>* to) {
    if (wire == single) {
      NODEWISE_ASSIGN_OR_RETURN(const T value, reader_.Read<T>(what));
      to->push_back(value);
      return absl::OkStatus();
    }
    absl::Span<const uint8_t> bytes;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(wire, what, &bytes));
    if (bytes.size() % sizeof(T) != 0) {
      return reader_.ErrorAt(
          reader_.offset() - bytes.size(),
          fmt::format("{} has {} bytes, expected a multiple of {}", what,
                      bytes.size(), sizeof(T)));
    }
    const size_t before = to->size();
    to->resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) {
      std::memcpy(to->data() + before, bytes.data(), bytes.size());
    }
    return absl::OkStatus();
  }

  absl::Status Skip(WireType wire, size_t start) {
    switch (wire) {
      case kVarint:
        return ReadVarint(&reader_, "unknown field").status();
      case kFixed64:
        return reader_.Read<uint64_t>("unknown field").status();
      case kFixed32:
        return reader_.Read<uint32_t>("unknown field").status();
      case kBytes: {
        absl::Span<const uint8_t> bytes;
        return ReadBytes(wire, "unknown field", &bytes);
      }
    }
    return reader_.ErrorAt(start,
                           "has a wire type that there is not (is this a "
                           "TensorProto?)");
  }

  ByteReader reader_;
};

void PutVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) {
    to->push_back(static_cast<char>(value | 0x80));
  }
  to->push_back(static_cast<char>(value));
}

void PutTag(Field field, WireType wire, std::string* to) {
  PutVarint(uint64_t{static_cast<unsigned>(field)} << 3 | wire, to);
}

void PutBytes(Field field, std::string_view bytes, std::string* to) {
  PutTag(field, kBytes, to);
  PutVarint(bytes.size(), to);
  to->append(bytes);
}

}  // namespace

absl::StatusOr<NamedTensor> ParseTensorProto(absl::Span<const uint8_t> bytes,
                                             std::string where) {
  Gathered gathered;
  NODEWISE_RETURN_IF_ERROR(WireReader(bytes, where).Read(&gathered));
  auto tensor = MakeTensor(gathered.fields, nullptr);
  if (!tensor.ok()) return At(where, tensor.status());
  return NamedTensor{std::string(gathered.fields.name), *std::move(tensor)};
}

absl::StatusOr<std::string> WriteTensorProto(const NamedTensor& tensor) {
  const auto number = OnnxNumberOf(tensor.tensor.dtype());
  if (!number.has_value()) {
    return absl::UnimplementedError(
        fmt::format("tensor {}: is {}, expected a type that ONNX has",
                    tensor.name, ToString(tensor.tensor.dtype())));
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor.tensor));
  std::string bytes;
  for (const int64_t dim : host.shape()) {
    PutTag(kDims, kVarint, &bytes);
    PutVarint(static_cast<uint64_t>(dim), &bytes);
  }
  PutTag(kDataType, kVarint, &bytes);
  PutVarint(static_cast<uint64_t>(*number), &bytes);
  if (!tensor.name.empty()) PutBytes(kName, tensor.name, &bytes);
  const auto data = OnnxDataOf(host);
  if (!data.ok()) return At("tensor " + tensor.name, data.status());
  PutBytes(kRawData, *data, &bytes);
  return bytes;
}

}  // namespace nodewise
