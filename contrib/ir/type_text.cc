#include "contrib/ir/type_text.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr char kRawType[] = "dtype";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns a piece of text as it is shown in a message.
std::string Next(std::string_view text) {
  if (text.empty()) return "the end";
  return Quoted(text.substr(0, std::min<size_t>(text.size(), 20)));
}

// Takes the characters after a backslash.
absl::StatusOr<char> TakeEscape(std::string_view* text) {
  const std::string_view start = *text;
  const char c = text->empty() ? 0 : text->front();
  if (!text->empty()) text->remove_prefix(1);
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == '"' || c == '\\') return c;
  if (c == 'x' && text->size() >= 2) {
    const int high = HexDigit((*text)[0]);
    const int low = HexDigit((*text)[1]);
    if (high >= 0 && low >= 0) {
      text->remove_prefix(2);
      return static_cast<char>(high * 16 + low);
    }
  }
  *text = start;
  return Expected(R"(\n, \t, \", \\ or \x with two digits)", start);
}

// Returns how many bytes the first character has; 0 if it is not UTF-8. Bytes
// that are not UTF-8 are escaped, so that a text with them can stand in a JSON.
size_t LengthOfUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Too long for the character, one half of a pair, or beyond the last one.
  const bool is_wrong = (byte(0) == 0xE0 && byte(1) < 0xA0) ||
                        (byte(0) == 0xED && byte(1) > 0x9F) ||
                        (byte(0) == 0xF0 && byte(1) < 0x90) ||
                        (byte(0) == 0xF4 && byte(1) > 0x8F);
  return is_wrong ? 0 : length;
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

absl::StatusOr<DLDataType> TakeRawType(std::string_view* text) {
  int64_t numbers[3] = {};
  constexpr int64_t kMost[3] = {UINT8_MAX, UINT8_MAX, UINT16_MAX};
  for (int i = 0; i < 3; ++i) {
    if (!TakeChar(text, i == 0 ? '(' : ',')) return Expected("( or ,", *text);
    SkipBlanks(text);
    const std::string_view start = *text;
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
  SkipBlanks(text);
  const std::string_view start = *text;
  const std::string_view word = TakeWord(text);
  if (word.empty()) return Expected("a type such as float32[2, ?]", start);
  if (word == kRawType) return TakeRawType(text);
  auto dtype = ParseDType(word);
  if (!dtype.ok()) *text = start;
  return dtype;
}

absl::StatusOr<Dim> TakeDim(std::string_view* text) {
  if (TakeChar(text, '?')) return Dim();
  SkipBlanks(text);
  if (text->empty()) return Expected("a side such as 3, batch or ?", *text);
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

// Reads what follows the opening bracket.
absl::StatusOr<Shape> TakeDims(std::string_view* text) {
  Shape shape;
  if (TakeChar(text, ']')) return shape;
  do {
    NODEWISE_ASSIGN_OR_RETURN(Dim dim, TakeDim(text));
    shape.push_back(std::move(dim));
  } while (TakeChar(text, ','));
  if (!TakeChar(text, ']')) return Expected(", or ]", *text);
  return shape;
}

}  // namespace

absl::Status Expected(std::string_view what, std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("found {}, expected {}", Next(text), what));
}

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c) || c == '.'; }

bool IsWord(std::string_view text) {
  return !text.empty() && IsWordStart(text.front()) &&
         std::all_of(text.begin(), text.end(), &IsWordPart);
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<uint8_t>(c);
    const size_t length = LengthOfUtf8(text.substr(i));
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
  while (!text->empty()) {
    const char c = text->front();
    if (c == '\n') break;
    text->remove_prefix(1);
    if (c == '"') return taken;
    if (c != '\\') {
      taken += c;
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const char escaped, TakeEscape(text));
    taken += escaped;
  }
  return Expected("a closing quote", *text);
}

void SkipBlanks(std::string_view* text) {
  while (!text->empty()) {
    const char c = text->front();
    if (text->substr(0, 2) == "//") {
      text->remove_prefix(std::min(text->find('\n'), text->size()));
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      text->remove_prefix(1);
    } else {
      return;
    }
  }
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
  size_t size = 1;
  while (size < text->size() && IsWordPart((*text)[size])) ++size;
  const std::string_view word = text->substr(0, size);
  text->remove_prefix(size);
  return word;
}

absl::StatusOr<int64_t> TakeInteger(std::string_view* text) {
  SkipBlanks(text);
  const std::string_view start = *text;
  const bool is_negative = !text->empty() && text->front() == '-';
  if (is_negative) text->remove_prefix(1);
  if (text->empty() || !IsDigit(text->front())) {
    *text = start;
    return Expected("an integer", start);
  }
  int64_t value = 0;
  bool fits = true;
  while (!text->empty() && IsDigit(text->front())) {
    const int digit = text->front() - '0';
    text->remove_prefix(1);
    // Digits are added with their sign: the smallest number has no positive
    // counterpart.
    fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, is_negative ? -digit : digit, &value);
  }
  if (fits) return value;
  *text = start;
  return Expected("an integer of 64 bits", start);
}

absl::StatusOr<Shape> TakeShape(std::string_view* text) {
  if (!TakeChar(text, '[')) return Expected("[", *text);
  return TakeDims(text);
}

absl::StatusOr<TensorType> TakeTensorType(std::string_view* text) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype, TakeDType(text));
  if (!TakeChar(text, '[')) return Expected("[", *text);
  constexpr std::string_view kAnyRank = "...";
  if (text->substr(0, kAnyRank.size()) == kAnyRank) {
    text->remove_prefix(kAnyRank.size());
    if (!TakeChar(text, ']')) return Expected("]", *text);
    return TensorType(dtype);
  }
  NODEWISE_ASSIGN_OR_RETURN(Shape shape, TakeDims(text));
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

}  // namespace nodewise
