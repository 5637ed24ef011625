#include "contrib/ir/tensor_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "contrib/ir/inference.h"
#include "contrib/ir/type_text.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

constexpr std::string_view kNoTensor = "none";
constexpr std::string_view kHash = "hash";  // In texts of version 1.
constexpr std::string_view kXxh3 = "xxh3";
constexpr size_t kMostDigits = 64;

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// The bytes of an element as one number, the highest byte first.
std::string BitsText(const uint8_t* bytes, size_t width) {
  std::string text = "0x";
  for (size_t i = width; i-- > 0;) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

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
  const auto end =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (end.ec != std::errc() || end.ptr != digits.data() + digits.size()) {
    return false;
  }
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

// What an element is written with, up to a blank or a comma.
std::string_view TakeToken(std::string_view* text) {
  SkipBlanks(text);
  size_t size = 0;
  while (size < text->size() &&
         (IsWordPart((*text)[size]) || (*text)[size] == '-' ||
          (*text)[size] == '+')) {
    ++size;
  }
  const std::string_view token = text->substr(0, size);
  text->remove_prefix(size);
  return token;
}

bool ReadBits(std::string_view digits, size_t width, uint8_t* bytes) {
  if (digits.size() != 2 * width) return false;
  for (size_t i = 0; i < width; ++i) {
    const std::string_view pair = digits.substr(2 * (width - 1 - i), 2);
    if (!IsHexDigit(pair[0]) || !IsHexDigit(pair[1])) return false;
    std::from_chars(pair.data(), pair.data() + 2, bytes[i], 16);
  }
  return true;
}

absl::Status TakeElement(DLDataType dtype, const ElementFormat& format,
                         std::string_view* text, uint8_t* bytes) {
  SkipBlanks(text);
  const std::string_view start = *text;
  const std::string_view token = TakeToken(text);
  const bool fits = token.substr(0, 2) == "0x"
                        ? ReadBits(token.substr(2), ElementBytes(dtype), bytes)
                        : format.read != nullptr && format.read(token, bytes);
  if (fits) return absl::OkStatus();
  *text = start;
  return Expected("an element of type " + ToString(dtype), start);
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

std::string TensorText(const NDArray& tensor, size_t max_elements) {
  if (!tensor.defined()) return std::string(kNoTensor);
  const TensorType type = TensorType::Of(*tensor);
  const std::string start = ToString(type) + " ";
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

absl::StatusOr<NDArray> TakeTensor(std::string_view* text) {
  SkipBlanks(text);
  const std::string_view start = *text;
  if (TakeWord(text) == kNoTensor) return NDArray();
  *text = start;
  NODEWISE_ASSIGN_OR_RETURN(const TensorType type, TakeTensorType(text));
  const auto sizes = type.sizes();
  if (!type.has_dtype() || !sizes.has_value() || !CheckType(type).ok()) {
    *text = start;
    return Expected("a tensor's type, all of it known", start);
  }
  SkipBlanks(text);
  const std::string_view elements = *text;
  const std::string_view word = TakeWord(text);
  if (word == kXxh3 || word == kHash) {
    *text = elements;
    return Expected("elements (a hash cannot be read back)", elements);
  }
  *text = elements;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            TakeElements(type.dtype, text));
  const auto wanted = TensorBytes(*sizes, type.dtype);
  if (!wanted.ok() || *wanted != bytes.size()) {
    *text = elements;
    return Expected("as many elements as " + ToString(type) + " has", elements);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray tensor, NDArray::Empty(*sizes, type.dtype, DLDevice{kDLCPU, 0}));
  NODEWISE_RETURN_IF_ERROR(CopyFromBytes(bytes.data(), bytes.size(), *tensor));
  return tensor;
}

std::string FloatText(float number) {
  uint8_t bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return NumberText<float>(bytes);
}

absl::StatusOr<float> TakeFloat(std::string_view* text) {
  uint8_t bytes[sizeof(float)];
  NODEWISE_RETURN_IF_ERROR(
      TakeElement(kFloat32, FormatOf<float>(), text, bytes));
  float number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

}  // namespace nodewise
