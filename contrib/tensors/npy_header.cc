#include "contrib/tensors/npy_header.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

struct TypeName {
  std::string_view name;  // Without the byte order.
  DLDataType dtype;
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
};

// Types that are written under a name that is not read back as the type.
constexpr TypeName kWrittenAs[] = {
    {"i1", {kDLInt, 1, 1}},         {"i1", {kDLInt, 4, 1}},
    {"u1", {kDLUInt, 4, 1}},        {"i1", {kDLInt, 2, 1}},
    {"u1", {kDLUInt, 2, 1}},        {"V1", {kDTypeE4M3, 8, 1}},
    {"V1", {kDTypeE4M3Fnuz, 8, 1}}, {"V1", {kDTypeE5M2, 8, 1}},
    {"V1", {kDTypeE5M2Fnuz, 8, 1}}, {"V1", {kDTypeE8M0, 8, 1}},
    {"V1", {kDTypeE2M1, 4, 1}},     {"b1", kFfiBool},
};

template <typename E>
constexpr bool IsWritten() {
  for (const TypeName& row : kTypes) {
    if (E::Is(row.dtype)) return true;
  }
  for (const TypeName& row : kWrittenAs) {
    if (E::Is(row.dtype)) return true;
  }
  return false;
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

const TypeName* FindType(std::string_view name) {
  for (const TypeName& row : kTypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads the dict literal of the header: Python's grammar, but only what numpy
// writes there, with the keys in any order.
class DictParser {
 public:
  // `base` is where `text` begins in `file`.
  DictParser(const ByteReader& file, size_t base, std::string_view text)
      : file_(file), base_(base), text_(text) {}

  absl::StatusOr<NpyHeader> Parse();

 private:
  absl::Status ParseItem();
  absl::Status ParseType();
  absl::Status ParseOrder();
  absl::Status ParseShape();
  absl::StatusOr<int64_t> ParseNumber();
  absl::StatusOr<std::string_view> ParseString();
  absl::Status SetType(std::string_view descr, size_t at);

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  // Takes `token` if it comes next.
  bool Take(std::string_view token);
  absl::Status Expect(std::string_view token);
  absl::Status Unexpected(std::string_view expected);
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

absl::StatusOr<NpyHeader> DictParser::Parse() {
  NODEWISE_RETURN_IF_ERROR(Expect("{"));
  while (!Take("}")) {
    NODEWISE_RETURN_IF_ERROR(ParseItem());
    if (Take(",")) continue;
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

absl::Status DictParser::ParseItem() {
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

absl::Status DictParser::ParseType() {
  SkipSpace();
  const size_t start = at_;
  if (Take("[") || Take("(") || Take("{")) {
    return Refusal(start,
                   "array has a structured type, expected a number type "
                   "such as '<f4' (save each field as an array)");
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view descr, ParseString());
  return SetType(descr, start);
}

absl::Status DictParser::SetType(std::string_view descr, size_t at) {
  char order = '=';
  std::string_view name = descr;
  if (!name.empty() && std::string_view("<>=|").find(name[0]) != name.npos) {
    order = name[0];
    name.remove_prefix(1);
  }
  // numpy never swaps raw bytes, so '>V2' has no meaning.
  const TypeName* type = FindType(name);
  if (type != nullptr && !(name == "V2" && order == '>')) {
    header_.dtype = type->dtype;
    header_.big_endian = order == '>';
    return absl::OkStatus();
  }
  for (const RefusedType& row : kRefused) {
    if (name.substr(0, row.name.size()) != row.name) continue;
    return Refusal(
        at, fmt::format("array has type '{}', expected a number type such "
                        "as '<f4' (these are {})",
                        descr, row.what));
  }
  return ErrorAt(at, fmt::format("array has the unknown type '{}', expected "
                                 "one such as '<f4' or '|b1'",
                                 descr));
}

absl::Status DictParser::ParseOrder() {
  header_.fortran_order = Take("True");
  if (header_.fortran_order || Take("False")) return absl::OkStatus();
  return Unexpected("True or False");
}

absl::Status DictParser::ParseShape() {
  SkipSpace();
  const size_t start = at_;
  std::vector<int64_t>& shape = header_.shape;
  NODEWISE_RETURN_IF_ERROR(Expect("("));
  while (!Take(")")) {
    if (shape.size() == kNpyMaxRank) {
      return ErrorAt(
          start, fmt::format("shape has more than {} dimensions", kNpyMaxRank));
    }
    NODEWISE_ASSIGN_OR_RETURN(const int64_t dim, ParseNumber());
    shape.push_back(dim);
    if (Take(",")) continue;
    // In Python (3) is a number, only (3,) is a tuple.
    if (shape.size() == 1) return Unexpected("','");
    NODEWISE_RETURN_IF_ERROR(Expect(")"));
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DictParser::ParseNumber() {
  SkipSpace();
  const size_t start = at_;
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  const std::string_view digits = text_.substr(start, at_ - start);
  if (digits.empty()) return Unexpected("a dimension");
  int64_t number = 0;
  if (digits.size() > 19 || (digits.size() > 1 && digits[0] == '0') ||
      !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                        &number)) {
    return ErrorAt(start, "dimension is not a number of 63 bits");
  }
  Take("L");  // Python 2 wrote this after long integers.
  return number;
}

absl::StatusOr<std::string_view> DictParser::ParseString() {
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

bool DictParser::Take(std::string_view token) {
  SkipSpace();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

absl::Status DictParser::Expect(std::string_view token) {
  if (Take(token)) return absl::OkStatus();
  return Unexpected(fmt::format("'{}'", token));
}

absl::Status DictParser::Unexpected(std::string_view expected) {
  if (at_ == text_.size()) {
    return ErrorAt(at_, fmt::format("header ends, expected {}", expected));
  }
  return ErrorAt(at_, fmt::format("header has byte 0x{:02x}, expected {}",
                                  static_cast<uint8_t>(text_[at_]), expected));
}

absl::StatusOr<uint32_t> ReadHeaderLength(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint8_t major,
                            reader->Read<uint8_t>("version"));
  NODEWISE_ASSIGN_OR_RETURN(const uint8_t minor,
                            reader->Read<uint8_t>("version"));
  if (major < 1 || major > 3 || minor != 0) {
    return reader->ErrorAt(
        start, fmt::format("version is {}.{}, expected 1.0, 2.0 or 3.0", major,
                           minor));
  }
  if (major == 1) return reader->Read<uint16_t>("header length");
  return reader->Read<uint32_t>("header length");
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
        "no .npy file begins so, expected \"\\x93NUMPY\" (is this an "
        "array?)");
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
  const TypeName* type = nullptr;
  for (const TypeName& row : kTypes) {
    if (row.dtype == scalar) type = &row;
  }
  for (const TypeName& row : kWrittenAs) {
    if (row.dtype == scalar) type = &row;
  }
  // Vectors of bool and of types of 2 and 4 bits are packed, numpy's are not.
  if (type == nullptr || (dtype.lanes > 1 && dtype.bits < 8)) {
    return absl::UnimplementedError(
        fmt::format("type {} is none that numpy has (store it as .params)",
                    ToString(dtype)));
  }
  std::vector<int64_t> dims(shape.begin(), shape.end());
  if (dtype.lanes > 1) dims.push_back(dtype.lanes);
  if (dims.size() > kNpyMaxRank) {
    return absl::UnimplementedError(
        fmt::format("tensor has {} dimensions, expected at most {}, as in "
                    "numpy (store it as .params)",
                    dims.size(), kNpyMaxRank));
  }
  std::string dict = fmt::format(
      "{{'descr': '{:c}{}', 'fortran_order': False, 'shape': {}, }}",
      ElementBytes(scalar) == 1 ? '|' : '<', type->name, ShapeToString(dims));
  const size_t front = kMagic.size() + 2 + sizeof(uint16_t);
  while ((front + dict.size() + 1) % kAlignment != 0) dict += ' ';
  dict += '\n';
  // 64 dimensions of 20 characters stay far below the 65535 of version 1.0.
  std::string header(kMagic);
  header.append({'\x01', '\x00', static_cast<char>(dict.size() & 0xFF),
                 static_cast<char>(dict.size() >> 8)});
  return header + dict;
}

}  // namespace nodewise
