#include "nodewise/tensors/tensor_group.h"

#include <algorithm>
#include <utility>

#include "contrib/tensors/zip_reader.h"
#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

// Protobuf's ways to write a field.
constexpr uint64_t kNumberField = 0;
constexpr uint64_t kEightBytesField = 1;
constexpr uint64_t kBytesField = 2;
constexpr uint64_t kFourBytesField = 5;

// ONNX's numbers of the fields that tell the messages apart.
constexpr uint64_t kDataTypeOfTensor = 2;
constexpr uint64_t kInitializerOfGraph = 5;
constexpr uint64_t kGraphOfModel = 7;

struct MessageField {
  uint64_t number = 0;
  uint64_t kind = 0;
  absl::Span<const uint8_t> bytes;  // The value of a kBytesField.
};

absl::StatusOr<uint64_t> ReadMessageNumber(ByteReader* reader) {
  const size_t start = reader->offset();
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    NODEWISE_ASSIGN_OR_RETURN(const uint8_t byte,
                              reader->Read<uint8_t>("number"));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return reader->ErrorAt(start, "a number of more than 10 bytes");
}

absl::StatusOr<MessageField> ReadMessageField(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t tag, ReadMessageNumber(reader));
  MessageField field{tag >> 3, tag & 7, {}};
  absl::Status status;
  switch (field.kind) {
    case kNumberField:
      status = ReadMessageNumber(reader).status();
      break;
    case kEightBytesField:
      status = reader->Bytes("field", sizeof(uint64_t)).status();
      break;
    case kFourBytesField:
      status = reader->Bytes("field", sizeof(uint32_t)).status();
      break;
    case kBytesField: {
      NODEWISE_ASSIGN_OR_RETURN(const uint64_t size, ReadMessageNumber(reader));
      NODEWISE_ASSIGN_OR_RETURN(field.bytes, reader->Bytes("field", size));
      break;
    }
    default:
      status = reader->ErrorAt(
          start, fmt::format("a field of kind {}, expected a message of ONNX",
                             field.kind));
  }
  NODEWISE_RETURN_IF_ERROR(status);
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
        (field.kind == kBytesField && (field.number == kInitializerOfGraph ||
                                       field.number == kGraphOfModel))) {
      fields.push_back(field);
    }
  }
  return fields;
}

bool AnyIs(const std::vector<MessageField>& fields, uint64_t number,
           uint64_t kind) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const MessageField& field) {
                       return field.number == number && field.kind == kind;
                     });
}

absl::StatusOr<std::vector<NamedTensor>> InitializersOf(
    const std::vector<MessageField>& graph, const std::string& where) {
  std::vector<NamedTensor> tensors;
  for (const MessageField& field : graph) {
    if (field.number != kInitializerOfGraph || field.kind != kBytesField) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(
        NamedTensor tensor,
        ParseTensorProto(field.bytes, fmt::format("{}: initializer {}", where,
                                                  tensors.size())));
    tensors.push_back(std::move(tensor));
  }
  if (!tensors.empty()) return tensors;
  return absl::InvalidArgumentError(fmt::format(
      "{}: holds no tensor, expected a TensorProto, or a graph with "
      "initializers",
      where));
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> ParseTensorGroup(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<MessageField> fields,
                            FieldsOf(bytes, where));
  // Only a tensor has a number there; a graph and a model have a name.
  if (AnyIs(fields, kDataTypeOfTensor, kNumberField)) {
    NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor,
                              ParseTensorProto(bytes, where));
    return std::vector<NamedTensor>{std::move(tensor)};
  }
  if (!AnyIs(fields, kInitializerOfGraph, kBytesField)) {
    for (const MessageField& field : fields) {
      if (field.number != kGraphOfModel || field.kind != kBytesField) continue;
      NODEWISE_ASSIGN_OR_RETURN(fields, FieldsOf(field.bytes, where));
      break;
    }
  }
  return InitializersOf(fields, where);
}

absl::StatusOr<std::vector<NamedTensor>> ReadTensorGroup(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  constexpr std::string_view kNpyMagic = "\x93NUMPY";
  if (LooksLikeParams(file.bytes()) || LooksLikeZip(file.bytes()) ||
      file.text().starts_with(kNpyMagic)) {
    return ReadTensorFile(path);
  }
  return ParseTensorGroup(file.bytes(), path);
}

}  // namespace nodewise
