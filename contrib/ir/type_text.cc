// Types and tensors as text, for networks and messages. Everything that is
// written here can be read back, bit by bit, also where a network is damaged:
// names that are not words stand in quotes, floats have as many digits as tell
// them apart, and what has no digits is written as its bits.

#include "contrib/ir/type_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "contrib/ir/inference.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// An element type without a name of its own: "dtype(2, 33, 1)".
constexpr char kRawType[] = "dtype";
constexpr std::string_view kNoTensor = "none";
constexpr std::string_view kHash = "hash";  // In texts of version 1.
constexpr std::string_view kXxh3 = "xxh3";
// More than the shortest form of any float or integer of 64 bits has.
constexpr size_t kMostDigits = 64;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Returns -1 for other characters. Capital letters are not taken: one text for
// one network, so that equal ones can be compared byte by byte.
int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int HexByte(std::string_view digits) {
  if (digits.size() < 2) return -1;
  const int high = HexDigit(digits[0]);
  const int low = HexDigit(digits[1]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string_view Cut(std::string_view* text, size_t size) {
  const std::string_view front = text->substr(0, size);
  text->remove_prefix(size);
  return front;
}

absl::StatusOr<char> TakeEscape(std::string_view* text) {
  const std::string_view start = *text;
  const char c = text->empty() ? '\0' : Cut(text, 1)[0];
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == '"' || c == '\\') return c;
  const int byte = c == 'x' ? HexByte(*text) : -1;
  if (byte >= 0) {
    text->remove_prefix(2);
    return static_cast<char>(byte);
  }
  return ExpectedAt(start, R"(\n, \t, \", \\ or \x with two digits)", text);
}

std::string DimText(const Dim& dim) {
  if (dim.is_known()) return std::to_string(dim.size());
  if (dim.name().empty()) return "?";
  return IsWord(dim.name()) ? dim.name() : Quoted(dim.name());
}

// Types without a usable name are written as their three numbers, so that a
// text can hold an invalid network.
std::string DTypeText(DLDataType dtype) {
  if (dtype == DLDataType{}) return "?";
  std::string name = ToString(dtype);
  const auto again = ParseDType(name);
  if (again.ok() && *again == dtype && IsWord(name)) return name;
  return fmt::format("{}({}, {}, {})", kRawType, dtype.code, dtype.bits,
                     dtype.lanes);
}

// Numbers beyond those of the fields would become others, and a damaged type
// another one.
absl::StatusOr<DLDataType> TakeRawType(std::string_view* text) {
  int64_t numbers[3] = {};
  constexpr int64_t kMost[3] = {UINT8_MAX, UINT8_MAX, UINT16_MAX};
  for (int i = 0; i < 3; ++i) {
    if (!TakeChar(text, i == 0 ? '(' : ',')) return Expected("( or ,", *text);
    const std::string_view start = SkipBlanks(text);
    NODEWISE_ASSIGN_OR_RETURN(numbers[i], TakeInteger(text));
    if (numbers[i] < 0 || numbers[i] > kMost[i]) {
      return Expected("a code, bits and lanes", start);
    }
  }
  if (!TakeChar(text, ')')) return Expected(")", *text);
  return DLDataType{static_cast<uint8_t>(numbers[0]),
                    static_cast<uint8_t>(numbers[1]),
                    static_cast<uint16_t>(numbers[2])};
}

absl::StatusOr<DLDataType> TakeDType(std::string_view* text) {
  if (TakeChar(text, '?')) return DLDataType{};
  const std::string_view start = SkipBlanks(text);
  const std::string_view word = TakeWord(text);
  if (word.empty()) return Expected("a type such as float32[2, ?]", start);
  if (word == kRawType) return TakeRawType(text);
  auto dtype = ParseDType(word);
  if (!dtype.ok()) *text = start;
  return dtype;
}

// A word is a name and digits are a size, so that names that look like a
// number are in quotes.
absl::StatusOr<Dim> TakeDim(std::string_view* text) {
  if (TakeChar(text, '?')) return Dim();
  if (SkipBlanks(text).empty()) {
    return Expected("a side such as 3, batch or ?", *text);
  }
  if (text->front() == '"') {
    NODEWISE_ASSIGN_OR_RETURN(std::string name, TakeQuoted(text));
    return Dim::Named(std::move(name));
  }
  const std::string_view word = TakeWord(text);
  if (!word.empty()) return Dim::Named(std::string(word));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t size, TakeInteger(text));
  // The smallest number is how Dim says that nothing is known.
  if (size == INT64_MIN) return Expected("a smaller number", *text);
  return Dim(size);
}

// The bytes of an element as one number, the highest byte first.
std::string BitsText(const uint8_t* bytes, size_t width) {
  std::string text = "0x";
  for (size_t i = width; i-- > 0;) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

// The shortest digits that are read back as the same number; infinities and
// NaN, which have no digits, as their bits.
template <typename T>
std::string NumberText(const uint8_t* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(T));
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) return BitsText(bytes, sizeof(T));
  }
  char digits[kMostDigits];
  const auto end = std::to_chars(digits, digits + kMostDigits, number);
  return std::string(digits, end.ptr);
}

template <typename T>
bool ReadNumber(std::string_view digits, uint8_t* bytes) {
  T number;
  const char* const stop = digits.data() + digits.size();
  const auto end = std::from_chars(digits.data(), stop, number);
  if (end.ec != std::errc() || end.ptr != stop) return false;
  std::memcpy(bytes, &number, sizeof(T));
  return true;
}

// How the elements of a type are written; null: as their bits.
struct ElementFormat {
  std::string (*write)(const uint8_t* bytes) = nullptr;
  bool (*read)(std::string_view digits, uint8_t* bytes) = nullptr;
};
template <typename T>
ElementFormat FormatOf() {
  return {&NumberText<T>, &ReadNumber<T>};
}

// Short floats and types of several lanes have no numbers that C++ could
// write.
ElementFormat FormatOf(DLDataType dtype) {
  ElementFormat format;
  if (dtype.lanes != 1) return format;
  VisitElementType(dtype, [&format](auto element) {
    using E = decltype(element);
    using T = typename E::Stored;
    if constexpr (std::is_arithmetic_v<T> && E::kIsCalculated) {
      format = FormatOf<T>();
    } else if constexpr (E::Is(kBool)) {
      format = FormatOf<uint8_t>();
    }
  });
  return format;
}

bool ReadBits(std::string_view digits, size_t width, uint8_t* bytes) {
  if (digits.size() != 2 * width) return false;
  for (size_t i = 0; i < width; ++i) {
    const int byte = HexByte(digits.substr(2 * (width - 1 - i), 2));
    if (byte < 0) return false;
    bytes[i] = static_cast<uint8_t>(byte);
  }
  return true;
}

// An element is written without blanks and commas: up to one is its token.
absl::Status TakeElement(DLDataType dtype, const ElementFormat& format,
                         std::string_view* text, uint8_t* bytes) {
  const std::string_view start = SkipBlanks(text);
  const auto end = std::ranges::find_if_not(
      start, [](char c) { return IsWordPart(c) || c == '-' || c == '+'; });
  const auto size = static_cast<size_t>(end - start.begin());
  const std::string_view token = Cut(text, size);
  const bool fits = token.substr(0, 2) == "0x"
                        ? ReadBits(token.substr(2), ElementBytes(dtype), bytes)
                        : format.read != nullptr && format.read(token, bytes);
  if (fits) return absl::OkStatus();
  return ExpectedAt(start, "an element of type " + ToString(dtype), text);
}

// Elements in brackets; memory grows with the elements that come, regardless of
// how many the type says there are.
absl::StatusOr<std::vector<uint8_t>> TakeElements(DLDataType dtype,
                                                  std::string_view* text) {
  if (!TakeChar(text, '[')) return Expected("[", *text);
  std::vector<uint8_t> bytes;
  if (TakeChar(text, ']')) return bytes;
  const ElementFormat format = FormatOf(dtype);
  const size_t width = ElementBytes(dtype);
  do {
    bytes.resize(bytes.size() + width);
    uint8_t* const element = bytes.data() + bytes.size() - width;
    NODEWISE_RETURN_IF_ERROR(TakeElement(dtype, format, text, element));
  } while (TakeChar(text, ','));
  if (!TakeChar(text, ']')) return Expected(", or ]", *text);
  return bytes;
}

}  // namespace

absl::Status Expected(std::string_view what, std::string_view text) {
  // A message shows the beginning: the rest may be megabytes on one line.
  constexpr size_t kMostShown = 20;
  const std::string next =
      text.empty() ? "the end" : Quoted(text.substr(0, kMostShown));
  return InvalidArgument("found {}, expected {}", next, what);
}

absl::Status ExpectedAt(std::string_view start, std::string_view what,
                        std::string_view* text) {
  *text = start;
  return Expected(what, start);
}

bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c) || c == '.'; }

bool IsWord(std::string_view text) {
  return !text.empty() && IsWordStart(text.front()) &&
         std::ranges::all_of(text, &IsWordPart);
}

// UTF-8 stays as it is, since names of models are in all languages. Bytes that
// are not UTF-8 are escaped, so that a text with them can stand in a JSON.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<uint8_t>(c);
    const size_t length = CharacterBytes(text.substr(i));
    if (length > 1) {
      quoted += text.substr(i, length);
      i += length - 1;
    } else if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte >= 0x7F) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

absl::StatusOr<std::string> TakeQuoted(std::string_view* text) {
  if (!TakeChar(text, '"')) return Expected("a name in quotes", *text);
  std::string taken;
  // Quoted() writes no line ends, so that the fault of a forgotten quote shows
  // in its own line.
  while (!text->empty() && text->front() != '\n') {
    char c = Cut(text, 1)[0];
    if (c == '"') return taken;
    if (c == '\\') {
      NODEWISE_ASSIGN_OR_RETURN(c, TakeEscape(text));
    }
    taken += c;
  }
  return Expected("a closing quote", *text);
}

std::string_view SkipBlanks(std::string_view* text) {
  while (!text->empty()) {
    const char c = text->front();
    if (text->substr(0, 2) == "//") {
      text->remove_prefix(std::min(text->find('\n'), text->size()));
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      text->remove_prefix(1);
    } else {
      break;
    }
  }
  return *text;
}

bool TakeChar(std::string_view* text, char c) {
  SkipBlanks(text);
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

std::string_view TakeWord(std::string_view* text) {
  SkipBlanks(text);
  if (text->empty() || !IsWordStart(text->front())) return {};
  const auto end = std::ranges::find_if_not(*text, &IsWordPart);
  return Cut(text, static_cast<size_t>(end - text->begin()));
}

absl::StatusOr<int64_t> TakeInteger(std::string_view* text) {
  const std::string_view start = SkipBlanks(text);
  const bool is_negative = !text->empty() && text->front() == '-';
  if (is_negative) text->remove_prefix(1);
  if (text->empty() || !IsDigit(text->front())) {
    return ExpectedAt(start, "an integer", text);
  }
  int64_t value = 0;
  bool fits = true;
  while (!text->empty() && IsDigit(text->front())) {
    const int digit = Cut(text, 1)[0] - '0';
    // Digits are added with their sign: the smallest number has no positive
    // counterpart.
    fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, is_negative ? -digit : digit, &value);
  }
  if (fits) return value;
  return ExpectedAt(start, "an integer of 64 bits", text);
}

absl::StatusOr<Shape> TakeShape(std::string_view* text) {
  return TakeList<Dim>(text, &TakeDim);
}

// "[...]" stands for any rank; it is looked for before the sides, whose syntax
// has no dots.
absl::StatusOr<TensorType> TakeTensorType(std::string_view* text) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype, TakeDType(text));
  constexpr std::string_view kAnyRank = "...";
  std::string_view inside = *text;
  if (TakeChar(&inside, '[') && inside.starts_with(kAnyRank)) {
    inside.remove_prefix(kAnyRank.size());
    *text = inside;
    if (!TakeChar(text, ']')) return Expected("]", *text);
    return TensorType(dtype);
  }
  NODEWISE_ASSIGN_OR_RETURN(Shape shape, TakeShape(text));
  return TensorType(dtype, std::move(shape));
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (const Dim& dim : shape) {
    if (text.size() > 1) text += ", ";
    text += DimText(dim);
  }
  return text + "]";
}

std::string ToString(const TensorType& type) {
  return DTypeText(type.dtype) +
         (type.has_rank() ? ToString(*type.shape) : "[...]");
}

absl::StatusOr<TensorType> ParseTensorType(std::string_view text) {
  const std::string_view whole = text;
  auto type = TakeTensorType(&text);
  SkipBlanks(&text);
  if (type.ok() && text.empty()) return type;
  const absl::Status status =
      type.ok() ? Expected("the end", text) : type.status();
  return At(fmt::format("type {}", Quoted(Shortened(whole))), status);
}

std::string TensorText(const NDArray& tensor, size_t max_elements) {
  if (!tensor.defined()) return std::string(kNoTensor);
  const TensorType type = TensorType::From(*tensor);
  const std::string start = ToString(type) + " ";
  // A damaged network may hold data that must not be touched: it is said so
  // where its hash would be.
  const bool is_readable = CheckType(type).ok() &&
                           DeviceTypeOf(tensor.device()) == kDLCPU &&
                           IsCompact(*tensor);
  if (!is_readable) return start + std::string(kXxh3) + " \"unreadable\"";
  const size_t width = ElementBytes(tensor.dtype());
  const size_t size = tensor.bytes();
  const auto* const bytes = tensor.As<const uint8_t>();
  if (max_elements > 0 && size / width > max_elements) {
    return start + fmt::format("{} \"{:016x}\"", kXxh3, HashBytes(bytes, size));
  }
  const ElementFormat format = FormatOf(tensor.dtype());
  std::string text = start + "[";
  for (size_t i = 0; i < size; i += width) {
    if (i > 0) text += ", ";
    text += format.write != nullptr ? format.write(bytes + i)
                                    : BitsText(bytes + i, width);
  }
  return text + "]";
}

// The elements are read before their number is compared with the type: a type
// that claims to have very many of them costs nothing.
absl::StatusOr<NDArray> TakeTensor(std::string_view* text) {
  const std::string_view start = SkipBlanks(text);
  if (TakeWord(text) == kNoTensor) return NDArray();
  *text = start;
  NODEWISE_ASSIGN_OR_RETURN(const TensorType type, TakeTensorType(text));
  const auto sizes = type.sizes();
  if (!type.has_dtype() || !sizes.has_value() || !CheckType(type).ok()) {
    return ExpectedAt(start, "a tensor's type, all of it known", text);
  }
  const std::string_view elements = SkipBlanks(text);
  const std::string_view word = TakeWord(text);
  if (word == kXxh3 || word == kHash) {
    return ExpectedAt(elements, "elements (a hash cannot be read back)", text);
  }
  *text = elements;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            TakeElements(type.dtype, text));
  const auto wanted = TensorBytes(*sizes, type.dtype);
  if (!wanted.ok() || *wanted != bytes.size()) {
    return ExpectedAt(elements,
                      "as many elements as " + ToString(type) + " has", text);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray tensor, NDArray::Empty(*sizes, type.dtype, DLDevice{kDLCPU, 0}));
  NODEWISE_RETURN_IF_ERROR(CopyFromBytes(bytes.data(), bytes.size(), *tensor));
  return tensor;
}

std::string FloatText(float number) {
  return NumberText<float>(reinterpret_cast<const uint8_t*>(&number));
}

absl::StatusOr<float> TakeFloat(std::string_view* text) {
  float number = 0;
  NODEWISE_RETURN_IF_ERROR(TakeElement(kFloat32, FormatOf<float>(), text,
                                       reinterpret_cast<uint8_t*>(&number)));
  return number;
}

}  // namespace nodewise
