#include "contrib/tensors/numpy.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A .npy file is a magic number, a version, the length of a header, the header
// and then the bare elements. The header is the literal of a Python dict,
// padded with blanks, and says type, order and shape. numpy has Python read it;
// the parser here takes no more than numpy itself writes, so that hostile text
// cannot do anything.
constexpr std::string_view kMagic("\x93NUMPY", 6);
// numpy pads the header so that the data begins at a multiple of this, and can
// be mapped and read by vectors.
constexpr size_t kHeaderAlignment = 64;

struct TypeName {
  std::string_view name;  // Without the byte order.
  DLDataType dtype;
  bool is_read = true;  // A file with this name holds this type.
};

constexpr TypeName kTypes[] = {
    {"b1", kBool},
    {"i1", {kDLInt, 8, 1}},
    {"i2", {kDLInt, 16, 1}},
    {"i4", {kDLInt, 32, 1}},
    {"i8", {kDLInt, 64, 1}},
    {"u1", {kDLUInt, 8, 1}},
    {"u2", {kDLUInt, 16, 1}},
    {"u4", {kDLUInt, 32, 1}},
    {"u8", {kDLUInt, 64, 1}},
    {"f2", {kDLFloat, 16, 1}},
    {"f4", {kDLFloat, 32, 1}},
    {"f8", {kDLFloat, 64, 1}},
    {"c8", {kDLComplex, 64, 1}},
    {"c16", {kDLComplex, 128, 1}},
    // numpy has no bfloat16; ml_dtypes registers one that is saved like this.
    {"V2", {kDLBfloat, 16, 1}},
    // numpy has nothing for these, so that they come back as other types.
    {"i1", {kDLInt, 1, 1}, false},
    {"i1", {kDLInt, 2, 1}, false},
    {"i1", {kDLInt, 4, 1}, false},
    {"u1", {kDLUInt, 2, 1}, false},
    {"u1", {kDLUInt, 4, 1}, false},
    {"V1", {kDTypeE4M3, 8, 1}, false},
    {"V1", {kDTypeE4M3Fnuz, 8, 1}, false},
    {"V1", {kDTypeE5M2, 8, 1}, false},
    {"V1", {kDTypeE5M2Fnuz, 8, 1}, false},
    {"V1", {kDTypeE8M0, 8, 1}, false},
    {"V1", {kDTypeE2M1, 4, 1}, false},
    {"b1", kFfiBool, false},
};

template <typename E>
constexpr bool IsWritten() {
  return std::ranges::any_of(
      kTypes, [](const TypeName& row) { return E::Is(row.dtype); });
}
template <typename... E>
constexpr bool AllAreWritten(ElementList<E...>) {
  return (IsWritten<E>() && ...);
}
static_assert(AllAreWritten(ElementTypes{}), "an element type has no row");

struct RefusedType {
  std::string_view name;  // The type's name begins with it.
  std::string_view what;
};

// The order matters: "V1" must come before "V", and stands for itself alone in
// the message.
constexpr RefusedType kRefused[] = {
    {"O", "pickled Python objects"},
    {"S", "byte strings"},
    {"a", "byte strings"},
    {"U", "strings"},
    {"M", "dates"},
    {"m", "time spans"},
    {"V1",
     "floats of 8 bits or less, which numpy does not tell apart; store them as "
     ".params or .pb"},
    {"V", "raw bytes"},
    {"f16", "long double"},
    {"c32", "complex long double"},
};

template <typename F>
const TypeName* FindType(F fits) {
  const auto* const row = std::ranges::find_if(kTypes, fits);
  return row == std::end(kTypes) ? nullptr : row;
}

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Reads the dict literal of the header: Python's grammar, but only what numpy
// writes there, with the keys in any order.
class DictParser {
 public:
  // `base` is where `text` begins in `file`.
  DictParser(const ByteReader& file, size_t base, std::string_view text)
      : file_(file), base_(base), text_(text) {}

  // A dict may end with a comma, and numpy always writes one. All three keys
  // must be there, each once, in any order.
  absl::StatusOr<NpyHeader> Parse() {
    NODEWISE_RETURN_IF_ERROR(Expect("{"));
    while (!TakeToken("}")) {
      NODEWISE_RETURN_IF_ERROR(ParseItem());
      if (TakeToken(",")) continue;
      NODEWISE_RETURN_IF_ERROR(Expect("}"));
      break;
    }
    SkipSpace();
    if (at_ < text_.size()) return Unexpected("only spaces behind the header");
    if (!has_type_) return ErrorAt(0, "header has no key 'descr'");
    if (!has_order_) return ErrorAt(0, "header has no key 'fortran_order'");
    if (!has_shape_) return ErrorAt(0, "header has no key 'shape'");
    return std::move(header_);
  }

 private:
  absl::Status ParseItem() {
    SkipSpace();
    const size_t start = at_;
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view key, ParseString());
    bool* seen = key == "descr"           ? &has_type_
                 : key == "fortran_order" ? &has_order_
                 : key == "shape"         ? &has_shape_
                                          : nullptr;
    if (seen == nullptr) {
      return ErrorAt(start,
                     "header has an unknown key, expected 'descr', "
                     "'fortran_order' or 'shape'");
    }
    if (*seen) return ErrorAt(start, fmt::format("key '{}' comes twice", key));
    *seen = true;
    NODEWISE_RETURN_IF_ERROR(Expect(":"));
    if (seen == &has_type_) return ParseType();
    return seen == &has_order_ ? ParseOrder() : ParseShape();
  }

  // A structured type is a list of fields, each with a type of its own. It is
  // told apart by its bracket, since there is nothing in it that a tensor could
  // hold.
  absl::Status ParseType() {
    SkipSpace();
    const size_t start = at_;
    if (TakeToken("[") || TakeToken("(") || TakeToken("{")) {
      return Refusal(start,
                     "array has a structured type, expected a number type "
                     "such as '<f4' (save each field as an array)");
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view descr, ParseString());
    return SetType(descr, start);
  }

  // A type is its byte order, its kind and its bytes: "<f4". The order "="
  // means the machine's, and "|" that there is none; both are read as little-
  // endian, and so is a type without any.
  absl::Status SetType(std::string_view descr, size_t at) {
    char order = '=';
    std::string_view name = descr;
    if (!name.empty() && std::string_view("<>=|").find(name[0]) != name.npos) {
      order = name[0];
      name.remove_prefix(1);
    }
    // numpy never swaps raw bytes, so '>V2' has no meaning.
    const TypeName* const type = FindType(
        [&](const TypeName& row) { return row.is_read && row.name == name; });
    if (type != nullptr && !(name == "V2" && order == '>')) {
      header_.dtype = type->dtype;
      header_.big_endian = order == '>';
      return absl::OkStatus();
    }
    for (const RefusedType& row : kRefused) {
      if (!name.starts_with(row.name)) continue;
      return Refusal(at, fmt::format("array has type '{}', expected a number "
                                     "type such as '<f4' (these are {})",
                                     descr, row.what));
    }
    return ErrorAt(at, fmt::format("array has the unknown type '{}', expected "
                                   "one such as '<f4' or '|b1'",
                                   descr));
  }

  absl::Status ParseOrder() {
    header_.fortran_order = TakeToken("True");
    if (header_.fortran_order || TakeToken("False")) return absl::OkStatus();
    return Unexpected("True or False");
  }

  absl::Status ParseShape() {
    SkipSpace();
    const size_t start = at_;
    std::vector<int64_t>& shape = header_.shape;
    NODEWISE_RETURN_IF_ERROR(Expect("("));
    while (!TakeToken(")")) {
      if (shape.size() == kNpyMaxRank) {
        return ErrorAt(start, fmt::format("shape has more than {} dimensions",
                                          kNpyMaxRank));
      }
      NODEWISE_ASSIGN_OR_RETURN(const int64_t dim, ParseNumber());
      shape.push_back(dim);
      if (TakeToken(",")) continue;
      // In Python (3) is a number, only (3,) is a tuple.
      if (shape.size() == 1) return Unexpected("','");
      NODEWISE_RETURN_IF_ERROR(Expect(")"));
      break;
    }
    return absl::OkStatus();
  }

  // At most 19 digits are handed on, so that no text overflows on its way.
  // Python has no integers that begin with 0.
  absl::StatusOr<int64_t> ParseNumber() {
    SkipSpace();
    const size_t start = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
    const std::string_view digits = text_.substr(start, at_ - start);
    if (digits.empty()) return Unexpected("a dimension");
    int64_t number = 0;
    if (digits.size() > 19 || (digits.size() > 1 && digits[0] == '0') ||
        !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                          &number)) {
      return ErrorAt(start, "dimension is not a number of 63 bits");
    }
    TakeToken("L");  // Python 2 wrote this after long integers.
    return number;
  }

  // No key and no type needs an escape or a byte beyond ASCII. The result
  // borrows the header.
  absl::StatusOr<std::string_view> ParseString() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Unexpected("a string");
    const size_t start = at_ + 1;
    for (size_t end = start; end < text_.size(); ++end) {
      if (text_[end] == quote) {
        at_ = end + 1;
        return text_.substr(start, end - start);
      }
      if (text_[end] < ' ' || text_[end] > '~' || text_[end] == '\\') {
        return ErrorAt(end, "string has a character that no key or type has");
      }
    }
    return ErrorAt(at_, "string has no end");
  }

  bool TakeToken(std::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  absl::Status Expect(std::string_view token) {
    if (TakeToken(token)) return absl::OkStatus();
    return Unexpected(fmt::format("'{}'", token));
  }

  absl::Status Unexpected(std::string_view expected) {
    if (at_ == text_.size()) {
      return ErrorAt(at_, fmt::format("header ends, expected {}", expected));
    }
    return ErrorAt(at_,
                   fmt::format("header has byte 0x{:02x}, expected {}",
                               static_cast<uint8_t>(text_[at_]), expected));
  }

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  absl::Status ErrorAt(size_t at, std::string_view message) const {
    return file_.ErrorAt(base_ + at, message);
  }
  absl::Status Refusal(size_t at, std::string_view message) const {
    return absl::UnimplementedError(ErrorAt(at, message).message());
  }

  const ByteReader& file_;
  size_t base_;
  std::string_view text_;
  size_t at_ = 0;
  NpyHeader header_;
  bool has_type_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

// Version 2 has a longer length than version 1, for headers of structured
// types, and version 3 is that with UTF-8 in it, which only names of fields
// need.
absl::StatusOr<uint32_t> ReadHeaderLength(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const auto major, reader->Read<uint8_t>("version"));
  NODEWISE_ASSIGN_OR_RETURN(const auto minor, reader->Read<uint8_t>("version"));
  if (major < 1 || major > 3 || minor != 0) {
    return reader->ErrorAt(
        start, fmt::format("version is {}.{}, expected 1.0, 2.0 or 3.0", major,
                           minor));
  }
  if (major == 1) return reader->Read<uint16_t>("header length");
  return reader->Read<uint32_t>("header length");
}

// A complex number is swapped as its two halves, in each of which the bytes lie
// in the file's order.
void SwapBytes(const NDArray& tensor) {
  const size_t parts = tensor.dtype().code == kDLComplex ? 2 : 1;
  const size_t width = ElementBytes(tensor.dtype()) / parts;
  uint8_t* const data = tensor.As<uint8_t>();
  const size_t size = tensor.bytes();
  for (size_t at = 0; at < size; at += width) {
    std::reverse(data + at, data + at + width);
  }
}

// The strides of Fortran's order say where the elements lie in the file, and
// the copy brings them into C's order. An axis of size 0 must not make all
// later strides 0, though there is nothing to copy then.
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

constexpr std::string_view kSuffix = ".npy";

std::string TensorName(std::string_view member) {
  if (member.ends_with(kSuffix)) member.remove_suffix(kSuffix.size());
  return std::string(member);
}

}  // namespace

bool LooksLikeNpy(absl::Span<const uint8_t> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const auto magic,
                            reader->Bytes("magic", kMagic.size()));
  if (!LooksLikeNpy(magic)) {
    return reader->ErrorAt(
        start,
        "no .npy file begins so, expected \"\\x93NUMPY\" (is this an array?)");
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t length, ReadHeaderLength(reader));
  const size_t base = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const auto text, reader->Bytes("header", length));
  return DictParser(*reader, base,
                    {reinterpret_cast<const char*>(text.data()), text.size()})
      .Parse();
}

absl::StatusOr<std::string> MakeNpyHeader(absl::Span<const int64_t> shape,
                                          DLDataType dtype) {
  DLDataType scalar = dtype;
  scalar.lanes = 1;
  const TypeName* const type =
      FindType([&](const TypeName& row) { return row.dtype == scalar; });
  // Vectors of bool and of types of 2 and 4 bits are packed, numpy's are not.
  if (type == nullptr || (dtype.lanes > 1 && dtype.bits < 8)) {
    return Unimplemented("type {} is none that numpy has (store it as .params)",
                         ToString(dtype));
  }
  std::vector<int64_t> dims(shape.begin(), shape.end());
  if (dtype.lanes > 1) dims.push_back(dtype.lanes);
  if (dims.size() > kNpyMaxRank) {
    return Unimplemented(
        "tensor has {} dimensions, expected at most {}, as in numpy (store it "
        "as .params)",
        dims.size(), kNpyMaxRank);
  }
  std::string dict = fmt::format(
      "{{'descr': '{:c}{}', 'fortran_order': False, 'shape': {}, }}",
      ElementBytes(scalar) == 1 ? '|' : '<', type->name, ShapeToString(dims));
  // The front is the magic, two bytes of version, and a length of 16 bits.
  const size_t front = kMagic.size() + 2 + sizeof(uint16_t);
  while ((front + dict.size() + 1) % kHeaderAlignment != 0) dict += ' ';
  dict += '\n';
  // 64 dimensions of 20 characters stay far below the 65535 of version 1.0.
  std::string header(kMagic);
  header.append({'\x01', '\x00', static_cast<char>(dict.size() & 0xFF),
                 static_cast<char>(dict.size() >> 8)});
  return header + dict;
}

absl::StatusOr<size_t> CheckedBytes(absl::Span<const int64_t> shape,
                                    DLDataType dtype) {
  std::vector<int64_t> sides(shape.begin(), shape.end());
  std::ranges::replace(sides, int64_t{0}, int64_t{1});
  // numpy refuses such shapes, and strides would overflow.
  NODEWISE_RETURN_IF_ERROR(TensorBytes(sides, dtype).status());
  return TensorBytes(shape, dtype);
}

absl::StatusOr<NDArray> ParseNpy(absl::Span<const uint8_t> bytes,
                                 std::string where) {
  ByteReader reader(bytes, std::move(where));
  NODEWISE_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(&reader));
  const size_t start = reader.offset();
  const auto size = CheckedBytes(header.shape, header.dtype);
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

absl::StatusOr<NpzReader> NpzReader::Open(absl::Span<const uint8_t> bytes,
                                          std::string where) {
  NpzReader reader;
  NODEWISE_ASSIGN_OR_RETURN(reader.members_, ReadZipDirectory(bytes, where));
  std::unordered_set<std::string> seen;
  for (const ZipMember& member : reader.members_) {
    reader.names_.push_back(TensorName(member.name));
    if (seen.insert(reader.names_.back()).second) continue;
    return DataLoss("{}: member {} comes twice, expected it once", where,
                    QuotedZipName(member.name));
  }
  reader.where_ = std::move(where);
  return reader;
}

absl::StatusOr<NDArray> NpzReader::Read(size_t index) const {
  const WorkingOn on(where_);
  const ZipMember& member = members_[index];
  const std::string place = where_ + ": " + QuotedZipName(member.name);
  std::string buffer;
  const auto bytes = UnpackZipMember(member, &buffer);
  if (!bytes.ok()) {
    return At(fmt::format("{}: byte {}", place, member.offset), bytes.status());
  }
  return ParseNpy(*bytes, place);
}

// The name has as many bytes in the archive as it has here, and ".npy" behind
// it.
absl::Status NpzNames::Add(const std::string& name) {
  const size_t size = name.size() + kSuffix.size();
  if (size > ZipWriter::kMaxNameBytes) {
    return InvalidArgument("member name has {} bytes, expected at most {}",
                           size, ZipWriter::kMaxNameBytes);
  }
  // An archive may hold a name twice, but a reader would only find one.
  if (names_.insert(name).second) return absl::OkStatus();
  return InvalidArgument("tensor {} comes twice, expected it once", name);
}

absl::Status NpzWriter::Add(const std::string& name, const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string header,
                            MakeNpyHeader(tensor.shape(), tensor.dtype()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor));
  return zip_.Add(name + std::string(kSuffix), header,
                  {host.As<uint8_t>(), host.bytes()});
}

absl::StatusOr<std::vector<NamedTensor>> ParseNpz(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  NODEWISE_ASSIGN_OR_RETURN(const auto reader, NpzReader::Open(bytes, where));
  std::vector<NamedTensor> tensors;
  tensors.reserve(reader.names().size());
  for (size_t i = 0; i < reader.names().size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, reader.Read(i));
    tensors.push_back({reader.names()[i], std::move(tensor)});
  }
  return tensors;
}

}  // namespace nodewise
