#include "nodewise/tensors/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "contrib/tensors/numpy.h"
#include "contrib/tensors/zip.h"
#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

// ONNX's tensors, in three layers: how elements of less than a byte are packed,
// which list of a TensorProto holds which type, and the message itself in
// protobuf's wire format. That is read and written without protobuf: a tensor
// file needs no more than this one message, in builds without ONNX, too.

// Returns an element as the byte it has in memory. The bits above those of the
// type repeat the sign of a signed integer. A short float keeps its bits as
// they are, with zeros above.
uint8_t Widened(DLDataType dtype, unsigned bits) {
  const unsigned sign = 1U << (dtype.bits - 1);
  const bool is_negative = dtype.code == kDLInt && (bits & sign) != 0;
  return static_cast<uint8_t>(is_negative ? bits | ~(2 * sign - 1) : bits);
}

// More than any operator can do with, and few enough to print. ONNX has no
// limit.
constexpr size_t kMostDims = 64;

// A message has several lists, of which at most one may have elements.
struct DataList {
  const char* name;
  const void* data;
  size_t size, width;
};

template <typename T>
DataList MakeList(const char* name, absl::Span<const T> list) {
  return {name, list.data(), list.size(), sizeof(T)};
}

std::vector<DataList> ListsOf(const TensorFields& fields) {
  std::vector<DataList> lists = {MakeList("float_data", fields.floats),
                                 MakeList("int32_data", fields.int32s),
                                 MakeList("int64_data", fields.int64s),
                                 MakeList("double_data", fields.doubles),
                                 MakeList("uint64_data", fields.uint64s)};
  std::erase_if(lists, [](const DataList& list) { return list.size == 0; });
  return lists;
}

// Returns the list that holds the elements of a type if they are not raw.
const char* ListFor(DLDataType dtype) {
  if (dtype.code == kDLFloat && dtype.bits == 32) return "float_data";
  if (dtype.code == kDLFloat && dtype.bits == 64) return "double_data";
  if (dtype.code == kDLInt && dtype.bits == 64) return "int64_data";
  if (dtype.code == kDLUInt && dtype.bits >= 32) return "uint64_data";
  return "int32_data";
}

// Requires exactly one list, the right one, of the right size; or raw data
// alone. Messages come from anywhere, and a message may have several lists, or
// one that is too short. All of that is refused here, before memory is taken
// for the tensor, so that the functions that copy need not look again.
absl::Status CheckData(const TensorFields& fields, DLDataType dtype,
                       int64_t elements) {
  const std::vector<DataList> lists = ListsOf(fields);
  if (lists.size() + (fields.has_raw ? 1 : 0) > 1) {
    return DataLoss("has both {} and {}, expected its data once", lists[0].name,
                    fields.has_raw ? "raw_data" : lists[1].name);
  }
  const auto check_size = [&](const char* list, size_t found, size_t expected,
                              const char* unit) {
    if (found == expected) return absl::OkStatus();
    return DataLoss("{} has {} {}, expected {} for {}", list, found, unit,
                    expected, TypeToString(fields.dims, dtype));
  };
  const size_t stored = OnnxBytes(dtype, elements);
  if (fields.has_raw) {
    return check_size("raw_data", fields.raw.size(), stored, "bytes");
  }
  const char* const list = ListFor(dtype);
  if (!lists.empty() && lists[0].name != std::string_view(list)) {
    return DataLoss("has its data in {}, expected {} or raw_data for {}",
                    lists[0].name, list, ToString(dtype));
  }
  const size_t found = lists.empty() ? 0 : lists[0].size;
  // Each number of this list is a byte of packed elements.
  if (IsPackedByOnnx(dtype)) return check_size(list, found, stored, "bytes");
  return check_size(list, found, static_cast<size_t>(elements), "elements");
}

// Takes integers from a list that is wider than the type. A number that does
// not come back from the narrower type is out of its range; for floats that
// check is left out, since they are stored as their bits.
template <typename To, typename From>
absl::Status CopyList(const char* list, absl::Span<const From> from,
                      const NDArray& to) {
  To* const out = to.As<To>();
  for (size_t i = 0; i < from.size(); ++i) {
    out[i] = static_cast<To>(from[i]);
    if (static_cast<From>(out[i]) == from[i]) continue;
    if constexpr (std::is_integral_v<From>) {
      return DataLoss("{}: element {} is {}, expected {:d} to {:d}", list, i,
                      from[i], std::numeric_limits<To>::min(),
                      std::numeric_limits<To>::max());
    }
  }
  return absl::OkStatus();
}

// A bool in memory is 0 or 1, which everything that reads one relies upon.
absl::Status CheckBools(const NDArray& tensor) {
  const uint8_t* const data = tensor.As<uint8_t>();
  const uint8_t* const end = data + tensor.bytes();
  const uint8_t* const wrong =
      std::find_if(data, end, [](uint8_t byte) { return byte > 1; });
  if (wrong == end) return absl::OkStatus();
  return DataLoss("element {} is {}, expected 0 or 1 for bool", wrong - data,
                  *wrong);
}

// In this list a number holds one byte, which packs several elements.
absl::Status UnpackInt32s(absl::Span<const int32_t> from, const NDArray& to) {
  std::vector<uint8_t> bytes;
  bytes.reserve(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    // Some writers give packed bytes a sign.
    if (from[i] < INT8_MIN || from[i] > UINT8_MAX) {
      return DataLoss(
          "int32_data: number {} is {}, expected a byte of packed elements", i,
          from[i]);
    }
    bytes.push_back(static_cast<uint8_t>(from[i]));
  }
  UnpackElements(bytes, to);
  return absl::OkStatus();
}

// This list holds integers as they are, short floats and bool as their bits.
absl::Status CopyInt32s(absl::Span<const int32_t> from, const NDArray& to) {
  if (IsPackedByOnnx(to.dtype())) return UnpackInt32s(from, to);
  absl::Status status;
  VisitElementType(to.dtype(), [&](auto element) {
    using T = typename decltype(element)::Stored;
    if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(int32_t)) {
      status = CopyList<T>("int32_data", from, to);
    } else if constexpr (sizeof(T) <= sizeof(uint16_t)) {
      using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
      status = CopyList<Bits>("int32_data", from, to);
    }
  });
  return status;
}

// REQUIRES: CheckData(), and there are elements, so that one list has them all.
absl::Status CopyData(const TensorFields& fields, const NDArray& to) {
  const DLDataType dtype = to.dtype();
  if (fields.has_raw && IsPackedByOnnx(dtype)) {
    UnpackElements(fields.raw, to);
    return absl::OkStatus();
  }
  if (fields.has_raw) {
    return CopyFromBytes(fields.raw.data(), fields.raw.size(), *to);
  }
  const DataList list = ListsOf(fields)[0];
  if (list.width == ElementBytes(dtype)) {
    return CopyFromBytes(list.data, to.bytes(), *to);
  }
  // The one type whose list is wider and not that of the 32-bit integers.
  if (dtype.code == kDLUInt && dtype.bits == 32) {
    return CopyList<uint32_t>("uint64_data", fields.uint64s, to);
  }
  return CopyInt32s(fields.int32s, to);
}

// Weights of a model stay in the mapped file this way, and are never copied.
NDArray Borrowed(const TensorFields& fields, DLDataType dtype,
                 const std::shared_ptr<void>& owner) {
  DLTensor tensor{};
  tensor.data = const_cast<uint8_t*>(fields.raw.data());
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(fields.dims.size());
  tensor.dtype = dtype;
  tensor.shape = const_cast<int64_t*>(fields.dims.data());
  NDArray borrowed = NDArray::Borrow(tensor, owner);
  borrowed.MakeReadOnly();  // A message must not be written into.
  return borrowed;
}

absl::StatusOr<size_t> DataBytes(absl::Span<const int64_t> dims,
                                 DLDataType dtype) {
  if (dims.size() > kMostDims) {
    return DataLoss("has {} dimensions, expected at most {}", dims.size(),
                    kMostDims);
  }
  auto bytes = CheckedBytes(dims, dtype);
  if (bytes.ok()) return bytes;
  return absl::DataLossError(bytes.status().message());
}

// Each field of a message begins with a tag: the field's number times 8, and
// how its value is written. An unknown field can be passed over by that alone.
// Ways 3 and 4 are groups, which protobuf has given up.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// These are the numbers of onnx.proto. String data is left out on purpose: it
// is skipped as an unknown field, and the type is refused by its number.
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

// Reads a number of 7 bits a byte, the lowest first, as all of protobuf's are.
absl::StatusOr<uint64_t> ReadVarint(
    ByteReader* reader, const char* what,
    std::string_view too_long =
        "{} is a number of more than 10 bytes, expected fewer") {
  const size_t start = reader->offset();
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    NODEWISE_ASSIGN_OR_RETURN(const uint8_t byte, reader->Read<uint8_t>(what));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return reader->ErrorAt(start, fmt::format(fmt::runtime(too_long), what));
}

// The message's fields, gathered until all of it is read. A writer may split a
// list into several fields, in between others. So elements are appended to
// vectors, and the spans are set when nothing moves any more.
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
    while (reader_.left() > 0) NODEWISE_RETURN_IF_ERROR(ReadField(to));
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
                               "is a segment of a tensor, expected all of it");
      case kExternalData:
        return reader_.ErrorAt(start,
                               "has its data in another file, expected "
                               "it here (only models may do that)");
      default:
        return Skip(wire, start);
    }
  }

  absl::Status WrongWireType(const char* what, WireType wire) const {
    return reader_.ErrorAt(reader_.offset(),
                           fmt::format("{} has wire type {}, which it cannot "
                                       "have (is this a TensorProto?)",
                                       what, static_cast<int>(wire)));
  }

  absl::Status ReadBytes(WireType wire, const char* what,
                         absl::Span<const uint8_t>* to) {
    if (wire != kBytes) return WrongWireType(what, wire);
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t size, ReadVarint(&reader_, what));
    NODEWISE_ASSIGN_OR_RETURN(*to, reader_.Bytes(what, size));
    return absl::OkStatus();
  }

  absl::Status ReadDataType(WireType wire, TensorFields* to) {
    if (wire != kVarint) return WrongWireType("data_type", wire);
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
    const auto read_from = [&](ByteReader* reader) -> absl::Status {
      NODEWISE_ASSIGN_OR_RETURN(const auto value, ReadVarint(reader, what));
      to->push_back(static_cast<T>(value));
      return absl::OkStatus();
    };
    if (wire == kVarint) return read_from(&reader_);
    absl::Span<const uint8_t> bytes;
    NODEWISE_RETURN_IF_ERROR(ReadBytes(wire, what, &bytes));
    ByteReader packed(bytes, reader_.where(), reader_.offset() - bytes.size());
    while (packed.left() > 0) NODEWISE_RETURN_IF_ERROR(read_from(&packed));
    return absl::OkStatus();
  }

  template <typename T>
  // Floats have the bytes that they have in memory, one after a tag, or as many
  // as fit after a length.
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

  // A newer ONNX may have fields that are not known here.
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
    return reader_.ErrorAt(
        start, "has a wire type that there is not (is this a TensorProto?)");
  }

  ByteReader reader_;
};

// Negative numbers come as unsigned ones of 64 bits and take ten bytes, as
// protobuf's own writers make them.
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

// ONNX's numbers of the fields that tell the messages apart.
constexpr uint64_t kDataTypeOfTensor = 2;
constexpr uint64_t kInitializerOfGraph = 5;
constexpr uint64_t kGraphOfModel = 7;

struct MessageField {
  uint64_t number = 0;
  uint64_t kind = 0;
  absl::Span<const uint8_t> bytes;  // The value, but for a kVarint.
};

// The text has no place for a name, since it is not known yet which message
// this is.
constexpr std::string_view kTooLong = "a number of more than 10 bytes";

absl::StatusOr<MessageField> ReadMessageField(ByteReader* reader) {
  const size_t start = reader->offset();
  const auto read_number = [reader] {
    return ReadVarint(reader, "number", kTooLong);
  };
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t tag, read_number());
  MessageField field{tag >> 3, tag & 7, {}};
  if (field.kind == kVarint) {
    NODEWISE_RETURN_IF_ERROR(read_number().status());
    return field;
  }
  uint64_t size = field.kind == kFixed64 ? 8 : 4;
  if (field.kind == kBytes) {
    NODEWISE_ASSIGN_OR_RETURN(size, read_number());
  } else if (field.kind != kFixed64 && field.kind != kFixed32) {
    return reader->ErrorAt(
        start, fmt::format("a field of kind {}, expected a message of ONNX",
                           field.kind));
  }
  NODEWISE_ASSIGN_OR_RETURN(field.bytes, reader->Bytes("field", size));
  return field;
}

// Those fields of a message that tell what it is, or hold what is wanted.
absl::StatusOr<std::vector<MessageField>> FieldsOf(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  ByteReader reader(bytes, where);
  std::vector<MessageField> fields;
  while (reader.left() > 0) {
    NODEWISE_ASSIGN_OR_RETURN(MessageField field, ReadMessageField(&reader));
    if (field.number == kDataTypeOfTensor ||
        (field.kind == kBytes && (field.number == kInitializerOfGraph ||
                                  field.number == kGraphOfModel))) {
      fields.push_back(field);
    }
  }
  return fields;
}

bool HasField(const std::vector<MessageField>& fields, uint64_t number,
              uint64_t kind) {
  return std::ranges::any_of(fields, [&](const MessageField& field) {
    return field.number == number && field.kind == kind;
  });
}

// Glow writes the inputs of a run as a graph that has nothing but initializers.
absl::StatusOr<std::vector<NamedTensor>> InitializersOf(
    const std::vector<MessageField>& graph, const std::string& where) {
  std::vector<NamedTensor> tensors;
  for (const MessageField& field : graph) {
    if (field.number != kInitializerOfGraph || field.kind != kBytes) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        NamedTensor tensor,
        ParseTensorProto(field.bytes, fmt::format("{}: initializer {}", where,
                                                  tensors.size())));
    tensors.push_back(std::move(tensor));
  }
  if (!tensors.empty()) return tensors;
  return InvalidArgument(
      "{}: holds no tensor, expected a TensorProto, or a graph with "
      "initializers",
      where);
}

}  // namespace

bool IsPackedByOnnx(DLDataType dtype) {
  return (dtype.bits == 2 || dtype.bits == 4) && dtype.lanes == 1;
}

size_t OnnxBytes(DLDataType dtype, int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  if (!IsPackedByOnnx(dtype)) return count * ElementBytes(dtype);
  const size_t in_byte = 8 / dtype.bits;
  return count / in_byte + (count % in_byte != 0 ? 1 : 0);
}

void UnpackElements(absl::Span<const uint8_t> bytes, const NDArray& to) {
  const DLDataType dtype = to.dtype();
  auto* const elements = to.As<uint8_t>();
  if (to.bytes() == 0) return;
  if (!IsPackedByOnnx(dtype)) {
    std::memcpy(elements, bytes.data(), to.bytes());
    return;
  }
  const size_t in_byte = 8 / dtype.bits;
  const unsigned mask = (1U << dtype.bits) - 1;
  for (size_t i = 0; i < to.bytes(); ++i) {
    const unsigned shift = i % in_byte * dtype.bits;
    elements[i] = Widened(dtype, bytes[i / in_byte] >> shift & mask);
  }
}

absl::StatusOr<std::string> OnnxDataOf(const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  const auto* const elements = tensor.As<const uint8_t>();
  if (!IsPackedByOnnx(dtype)) {
    return std::string(tensor.As<const char>(), tensor.bytes());
  }
  const size_t count = tensor.bytes();
  const size_t in_byte = 8 / dtype.bits;
  const unsigned mask = (1U << dtype.bits) - 1;
  std::string packed(OnnxBytes(dtype, static_cast<int64_t>(count)), '\0');
  for (size_t i = 0; i < count; ++i) {
    const unsigned bits = elements[i] & mask;
    const bool is_integer = dtype.code == kDLInt || dtype.code == kDLUInt;
    if (is_integer && Widened(dtype, bits) != elements[i]) {
      return InvalidArgument(
          "element {} is {}, which {} does not hold", i,
          dtype.code == kDLInt ? static_cast<int8_t>(elements[i]) : elements[i],
          ToString(dtype));
    }
    packed[i / in_byte] =
        static_cast<char>(static_cast<uint8_t>(packed[i / in_byte]) |
                          bits << i % in_byte * dtype.bits);
  }
  return packed;
}

absl::StatusOr<NDArray> MakeTensor(const TensorFields& fields,
                                   const std::shared_ptr<void>& owner) {
  NODEWISE_ASSIGN_OR_RETURN(const auto dtype, DTypeFromOnnx(fields.data_type));
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, DataBytes(fields.dims, dtype));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements, NumElements(fields.dims));
  NODEWISE_RETURN_IF_ERROR(CheckData(fields, dtype, elements));
  NDArray tensor;
  if (owner != nullptr && fields.has_raw && bytes > 0 &&
      !IsPackedByOnnx(dtype) &&
      reinterpret_cast<uintptr_t>(fields.raw.data()) % ElementBytes(dtype) ==
          0) {
    tensor = Borrowed(fields, dtype, owner);
  } else {
    NODEWISE_ASSIGN_OR_RETURN(tensor, NDArray::Empty(fields.dims, dtype, kCpu));
    if (bytes > 0) NODEWISE_RETURN_IF_ERROR(CopyData(fields, tensor));
  }
  if (dtype == kBool) NODEWISE_RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

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
  if (!number) {
    return Unimplemented("tensor {}: is {}, expected a type that ONNX has",
                         tensor.name, ToString(tensor.tensor.dtype()));
  }
  // The elements always go into raw_data, which can hold all types.
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

absl::StatusOr<std::vector<NamedTensor>> ParseTensorGroup(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  NODEWISE_ASSIGN_OR_RETURN(auto fields, FieldsOf(bytes, where));
  // Only a tensor has a number as its field 2; a graph and a model have a name.
  if (HasField(fields, kDataTypeOfTensor, kVarint)) {
    NODEWISE_ASSIGN_OR_RETURN(auto tensor, ParseTensorProto(bytes, where));
    return std::vector<NamedTensor>{std::move(tensor)};
  }
  // A field of the initializers' number is a graph's, and a model has its graph
  // in one field: then that is what to look into. The first graph wins if there
  // are several.
  if (!HasField(fields, kInitializerOfGraph, kBytes)) {
    for (const MessageField& field : fields) {
      if (field.number != kGraphOfModel || field.kind != kBytes) continue;
      NODEWISE_ASSIGN_OR_RETURN(fields, FieldsOf(field.bytes, where));
      break;
    }
  }
  return InitializersOf(fields, where);
}

absl::StatusOr<std::vector<NamedTensor>> ReadTensorGroup(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (LooksLikeParams(file.bytes()) || LooksLikeZip(file.bytes()) ||
      LooksLikeNpy(file.bytes())) {
    return ReadTensorFile(path);
  }
  return ParseTensorGroup(file.bytes(), path);
}

}  // namespace nodewise
