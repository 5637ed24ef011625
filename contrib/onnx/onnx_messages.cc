// What is read out of ONNX's messages and written into them: types, tensors
// with their data, attributes, and notes of where nodes are from.

#include "contrib/onnx/onnx_messages.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "nodewise/ir/origin.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A trace has some lines for each frame, and a file may hold anything.
constexpr size_t kMostNoteBytes = size_t{64} << 10;

// Exporters write "?" or "-1" for sides of unknown size, which need not be
// equal.
bool IsName(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) {
    return absl::ascii_isalpha(c) || c == '_' || c >= 0x80;
  });
}

// Notes the name, so that a size which is given for no name of the model can be
// refused.
Dim BoundOr(const Dim& unbound, const std::string& name, DimSizes* dims) {
  dims->names.insert(name);
  const auto size = dims->sizes.find(name);
  return size == dims->sizes.end() ? unbound : Dim(size->second);
}

absl::StatusOr<Dim> ReadDim(const proto::Shape::Dimension& dim,
                            DimSizes* dims) {
  if (dim.has_dim_value()) {
    // Some exporters write this for a side that they do not know.
    if (dim.dim_value() == -1) return Dim();
    if (dim.dim_value() >= 0) return Dim(dim.dim_value());
    return DataLoss("has a side of {}, expected 0 or more", dim.dim_value());
  }
  if (dims == nullptr || !dim.has_dim_param() || !IsName(dim.dim_param())) {
    return Dim();
  }
  return BoundOr(Dim::Named(dim.dim_param()), dim.dim_param(), dims);
}

// Returns what a type is if it is not a tensor's. A type that is not set is
// taken for one that is not known.
const char* UnsupportedTypeName(const proto::Type& type) {
  switch (type.value_case()) {
    case proto::Type::kSequenceType:
      return "a sequence";
    case proto::Type::kMapType:
      return "a map";
    case proto::Type::kOpaqueType:
      return "opaque";
    case proto::Type::kSparseTensorType:
      return "a sparse tensor";
    case proto::Type::kOptionalType:
      return "an optional";
    case proto::Type::kTensorType:
    case proto::Type::VALUE_NOT_SET:
      break;
  }
  return nullptr;
}

template <typename Numbers>
auto SpanOf(const Numbers& numbers) {
  return absl::MakeConstSpan(numbers.data(),
                             static_cast<size_t>(numbers.size()));
}

// Where the data of a tensor lies. Other entries (a checksum) are ignored.
struct Place {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

// Numbers are texts in this part of the format.
absl::StatusOr<uint64_t> ReadNumber(const proto::StringPair& entry) {
  uint64_t number = 0;
  const std::string& text = entry.value();
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && !text.empty()) return number;
  return DataLoss("external data: {} is \"{}\", expected a number of bytes",
                  entry.key(), Shortened(text));
}

absl::StatusOr<Place> PlaceOf(const proto::Tensor& tensor) {
  Place place;
  for (const proto::StringPair& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset") {
      NODEWISE_ASSIGN_OR_RETURN(place.offset, ReadNumber(entry));
    } else if (entry.key() == "length") {
      NODEWISE_ASSIGN_OR_RETURN(place.length, ReadNumber(entry));
    }
  }
  return place;
}

absl::Status BadLocation(std::string_view location, const char* why) {
  return DataLoss(
      "external data: location \"{}\" {}, expected a file below the model's "
      "folder",
      Shortened(location), why);
}

// Judges the text alone, so that nothing outside is even looked at.
absl::Status CheckLocation(const std::string& location) {
  if (location.empty()) return BadLocation(location, "is empty");
  if (location.find('\0') != std::string::npos) {
    return BadLocation(location, "holds a NUL");
  }
  const fs::path path(location);
  if (path.is_absolute()) return BadLocation(location, "is absolute");
  if (std::find(path.begin(), path.end(), "..") != path.end()) {
    return BadLocation(location, "goes up");
  }
  return absl::OkStatus();
}

// Both are canonical, so that links have been followed and no part is "..".
bool IsBelow(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end())
             .first == folder.end();
}

// Without a length, all of the file from the offset on is the tensor's. The sum
// of both is not formed, since it could overflow.
absl::StatusOr<absl::Span<const uint8_t>> Cut(absl::Span<const uint8_t> bytes,
                                              const Place& place) {
  if (place.offset <= bytes.size() &&
      place.length.value_or(0) <= bytes.size() - place.offset) {
    return bytes.subspan(place.offset,
                         place.length.value_or(bytes.size() - place.offset));
  }
  return DataLoss(
      "external data: bytes {} and on, {} of them, expected them within the {} "
      "of {}",
      place.offset, place.length.value_or(0), bytes.size(), place.location);
}

// In the order of AttributeType.
// The types are numbered without a gap, so that a list is enough.
const char* NameOfType(AttributeType type) {
  constexpr const char* kNames[] = {
      "without a type", "a float",         "an integer",     "a string",
      "a tensor",       "a graph",         "floats",         "integers",
      "strings",        "several tensors", "several graphs", "a sparse tensor",
      "sparse tensors", "a type",          "several types"};
  const auto i = static_cast<size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "of an unknown type";
}

// The order is that of the alternatives of AttrValue, whose index selects the
// type.
constexpr AttributeType kTypesOfValues[] = {
    AttributeType::kInt,    AttributeType::kFloat,  AttributeType::kString,
    AttributeType::kInts,   AttributeType::kFloats, AttributeType::kStrings,
    AttributeType::kTensor, AttributeType::kGraph};

void Set(int64_t value, proto::Attribute* to) { to->set_i(value); }
void Set(float value, proto::Attribute* to) { to->set_f(value); }
void Set(const std::string& value, proto::Attribute* to) { to->set_s(value); }
void Set(const std::vector<int64_t>& values, proto::Attribute* to) {
  to->mutable_ints()->Add(values.begin(), values.end());
}
void Set(const std::vector<float>& values, proto::Attribute* to) {
  to->mutable_floats()->Add(values.begin(), values.end());
}
void Set(const std::vector<std::string>& values, proto::Attribute* to) {
  to->mutable_strings()->Add(values.begin(), values.end());
}

}  // namespace

absl::StatusOr<TensorType> ReadType(const proto::Type& type, DimSizes* dims) {
  if (const char* const kind = UnsupportedTypeName(type)) {
    return Unimplemented("is {}, which is not supported, expected a tensor",
                         kind);
  }
  TensorType result;
  if (!type.has_tensor_type()) return result;
  const proto::Type::OfTensor& tensor = type.tensor_type();
  if (tensor.elem_type() != 0) {
    NODEWISE_ASSIGN_OR_RETURN(result.dtype, DTypeFromOnnx(tensor.elem_type()));
  }
  if (!tensor.has_shape()) return result;
  result.shape.emplace();
  for (const proto::Shape::Dimension& dim : tensor.shape().dim()) {
    NODEWISE_ASSIGN_OR_RETURN(Dim side, ReadDim(dim, dims));
    result.shape->push_back(std::move(side));
  }
  return result;
}

void BindUnnamedSides(const std::string& input, TensorType* type,
                      DimSizes* dims) {
  if (!type->has_rank()) return;
  for (size_t i = 0; i < type->shape->size(); ++i) {
    Dim& side = (*type->shape)[i];
    if (side.is_known() || !side.name().empty()) continue;
    side = BoundOr(side, NameOfSide(input, i, side), dims);
  }
}

void WriteType(const TensorType& type, proto::Type* to) {
  proto::Type::OfTensor* const tensor = to->mutable_tensor_type();
  if (type.has_dtype()) {
    tensor->set_elem_type(
        static_cast<int32_t>(OnnxNumberOf(type.dtype).value_or(0)));
  }
  if (!type.has_rank()) return;
  proto::Shape* const shape = tensor->mutable_shape();
  for (const Dim& side : *type.shape) {
    proto::Shape::Dimension* const dim = shape->add_dim();
    if (side.is_known()) {
      dim->set_dim_value(side.size());
    } else if (!side.name().empty()) {
      dim->set_dim_param(side.name());
    }
  }
}

// Only one of the lists has data; which one, the type says.
TensorFields FieldsOf(const proto::Tensor& tensor) {
  return {.name = tensor.name(),
          .dims = SpanOf(tensor.dims()),
          .data_type = tensor.data_type(),
          .floats = SpanOf(tensor.float_data()),
          .int32s = SpanOf(tensor.int32_data()),
          .int64s = SpanOf(tensor.int64_data()),
          .doubles = SpanOf(tensor.double_data()),
          .uint64s = SpanOf(tensor.uint64_data()),
          .raw = {reinterpret_cast<const uint8_t*>(tensor.raw_data().data()),
                  tensor.raw_data().size()},
          .has_raw = tensor.has_raw_data()};
}

absl::Status WriteTensor(const NDArray& tensor, proto::Tensor* to) {
  const auto number = OnnxNumberOf(tensor.dtype());
  if (!number.has_value()) {
    return Unimplemented("is {}, expected a type that ONNX has",
                         ToString(tensor.dtype()));
  }
  // raw_data has the elements one behind the other.
  NDArray host = tensor;
  if (DeviceTypeOf(host.device()) != kDLCPU || !IsCompact(*host)) {
    NODEWISE_ASSIGN_OR_RETURN(host, host.CopyToHost());
  }
  for (const int64_t dim : host.shape()) to->add_dims(dim);
  to->set_data_type(static_cast<int32_t>(*number));
  NODEWISE_ASSIGN_OR_RETURN(std::string data, OnnxDataOf(host));
  to->set_raw_data(std::move(data));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<proto::Model>> ParseModel(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  // protobuf counts bytes in an int.
  if (bytes.size() > INT_MAX) {
    return DataLoss(
        "{}: has {} bytes, expected less than 2 GiB (weights may lie in files "
        "beside it)",
        where, bytes.size());
  }
  auto model = std::make_shared<proto::Model>();
  if (model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return model;
  }
  return DataLoss(
      "{}: is not an ONNX model, or a damaged one (protobuf cannot read it)",
      where);
}

std::optional<std::string> ExternalLocation(const proto::Tensor& tensor) {
  if (tensor.data_location() != kExternalData) return std::nullopt;
  const auto place = PlaceOf(tensor);
  if (!place.ok() || !CheckLocation(place->location).ok()) return std::nullopt;
  return place->location;
}

absl::StatusOr<NDArray> TensorReader::Read(const proto::Tensor& tensor) {
  if (tensor.has_segment()) {
    return Unimplemented("is a segment of a tensor, expected all of it");
  }
  if (tensor.data_location() == kExternalData) return ReadExternal(tensor);
  if (tensor.data_location() != 0) {
    return DataLoss(
        "data_location is {}, expected 0 (in the model) or 1 (in a file)",
        tensor.data_location());
  }
  return MakeTensor(FieldsOf(tensor), owner_);
}

// A file is mapped, not read, and its tensors borrow from it: weights of many
// GiB cost no memory of their own.
absl::StatusOr<NDArray> TensorReader::ReadExternal(
    const proto::Tensor& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const Place place, PlaceOf(tensor));
  NODEWISE_ASSIGN_OR_RETURN(const auto file, Open(place.location));
  TensorFields fields = FieldsOf(tensor);
  if (fields.has_raw) {
    return DataLoss(
        "has both raw_data and external data, expected its data once");
  }
  fields.has_raw = true;
  NODEWISE_ASSIGN_OR_RETURN(fields.raw, Cut(file->bytes(), place));
  return MakeTensor(fields, std::const_pointer_cast<MappedFile>(file));
}

absl::StatusOr<std::shared_ptr<const MappedFile>> TensorReader::Open(
    const std::string& location) {
  NODEWISE_RETURN_IF_ERROR(CheckLocation(location));
  if (folder_.empty()) {
    return FailedPrecondition(
        "external data: is in {}, expected all data in the model, which is "
        "read from memory",
        Shortened(location));
  }
  const auto open = files_.find(location);
  if (open != files_.end()) return open->second;
  // The text is fine, but a link may still lead out of the folder.
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  // Without a folder the location would be in the working directory.
  const fs::path path =
      error ? fs::path() : fs::canonical(folder / location, error);
  if (error) {
    return NotFound("external data: {}: {}, expected the file beside the model",
                    Shortened(location), error.message());
  }
  if (!IsBelow(folder, path)) {
    return BadLocation(location, "is a link that leads out");
  }
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto shared = std::make_shared<const MappedFile>(std::move(file));
  files_.emplace(location, shared);
  return shared;
}

// An empty list leaves no trace in a message, so that one without a type cannot
// be told from an attribute without a value.
AttributeType TypeOfValue(const proto::Attribute& attribute) {
  if (attribute.has_f()) return AttributeType::kFloat;
  if (attribute.has_i()) return AttributeType::kInt;
  if (attribute.has_s()) return AttributeType::kString;
  if (attribute.has_t()) return AttributeType::kTensor;
  if (attribute.has_g()) return AttributeType::kGraph;
  if (attribute.floats_size() > 0) return AttributeType::kFloats;
  if (attribute.ints_size() > 0) return AttributeType::kInts;
  if (attribute.strings_size() > 0) return AttributeType::kStrings;
  return AttributeType::kUndefined;
}

AttributeType TypeOf(const proto::Attribute& attribute) {
  return attribute.type() != 0 ? static_cast<AttributeType>(attribute.type())
                               : TypeOfValue(attribute);
}

const proto::Attribute* FindAttribute(const proto::Node& node,
                                      std::string_view name) {
  const auto& list = node.attribute();
  const auto found = std::ranges::find(list, name, &proto::Attribute::name);
  return found == list.end() ? nullptr : &*found;
}

absl::StatusOr<AttrValue> ReadAttribute(const proto::Attribute& attribute,
                                        TensorReader* tensors) {
  switch (const AttributeType type = TypeOf(attribute)) {
    case AttributeType::kFloat:
      return AttrValue(attribute.f());
    case AttributeType::kInt:
      return AttrValue(int64_t{attribute.i()});
    case AttributeType::kString:
      return AttrValue(attribute.s());
    case AttributeType::kFloats:
      return AttrValue(std::vector<float>(attribute.floats().begin(),
                                          attribute.floats().end()));
    case AttributeType::kInts:
      return AttrValue(std::vector<int64_t>(attribute.ints().begin(),
                                            attribute.ints().end()));
    case AttributeType::kStrings:
      return AttrValue(std::vector<std::string>(attribute.strings().begin(),
                                                attribute.strings().end()));
    case AttributeType::kTensor: {
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, tensors->Read(attribute.t()));
      return AttrValue(std::move(tensor));
    }
    default:
      return Unimplemented(
          "is {}, expected a number, a text, a list of these, a tensor or a "
          "graph",
          NameOfType(type));
  }
}

absl::Status WriteAttribute(const AttrValue& value, proto::Attribute* to) {
  to->set_type(static_cast<int>(kTypesOfValues[value.index()]));
  if (const NDArray* const tensor = std::get_if<NDArray>(&value)) {
    return WriteTensor(*tensor, to->mutable_t());
  }
  std::visit(
      [&](const auto& plain) {
        using T = std::decay_t<decltype(plain)>;
        if constexpr (!std::is_same_v<T, NDArray> &&
                      !std::is_same_v<T, Subgraph>) {
          Set(plain, to);
        }
      },
      value);
  return absl::OkStatus();
}

proto::Attribute NamedAttribute(std::string_view name, const AttrValue& value) {
  proto::Attribute made;
  made.set_name(std::string(name));
  // Only tensors can fail.
  static_cast<void>(WriteAttribute(value, &made));
  return made;
}

// Nodes say where they are from in their metadata or, where older exporters
// wrote them, in their description (docs/formats/onnx_import.md).
std::shared_ptr<const Origin> OriginReader::Read(const proto::Node& node) {
  if (node.metadata_props().empty() && !node.has_doc_string()) return nullptr;
  const auto [entry, is_new] = read_.emplace(&node, nullptr);
  if (!is_new) return entry->second;
  Origin origin;
  for (const proto::StringPair& note : node.metadata_props()) {
    if (note.key() == kDescriptionKey || !IsOriginKey(note.key())) continue;
    Keep(note.key(), note.value(), &origin);
  }
  // People write other descriptions, too.
  if (node.doc_string().size() <= kMostNoteBytes &&
      FindSourceLine(node.doc_string()).has_value()) {
    Keep(std::string(kDescriptionKey), node.doc_string(), &origin);
  }
  if (!origin.notes.empty()) {
    entry->second = std::make_shared<const Origin>(std::move(origin));
  }
  return entry->second;
}

// The first note of a key counts. One text may be in thousands of nodes, such
// as the stack of a call of a layer, so that texts are shared.
void OriginReader::Keep(const std::string& key, const std::string& value,
                        Origin* origin) {
  // Keys are names of a dozen characters; anything may be in a file.
  constexpr size_t kMostKeyBytes = 256;
  const bool is_there = std::ranges::any_of(
      origin->notes, [&](const auto& note) { return note.first == key; });
  if (is_there || value.size() > kMostNoteBytes || key.size() > kMostKeyBytes) {
    return;
  }
  // A new text is stored twice: as a key of the map, and as what notes share.
  const auto* const known = FindOrNull(values_, value);
  const size_t bytes =
      key.size() + sizeof(Origin) + (known == nullptr ? 2 * value.size() : 0);
  if (bytes > bytes_left_) return;
  bytes_left_ -= bytes;
  origin->notes.emplace_back(
      key,
      known != nullptr
          ? *known
          : values_.emplace(value, std::make_shared<const std::string>(value))
                .first->second);
}

void WriteOrigin(const Operation& operation, proto::Node* to) {
  if (operation.origin == nullptr) return;
  for (const auto& [key, value] : operation.origin->notes) {
    if (key == kDescriptionKey) {
      to->set_doc_string(*value);
      continue;
    }
    proto::StringPair* const note = to->add_metadata_props();
    note->set_key(key);
    note->set_value(*value);
  }
}

}  // namespace nodewise
