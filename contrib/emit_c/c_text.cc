#include "contrib/emit_c/c_text.h"

#include <cctype>
#include <cmath>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise::emit_c {
namespace {

// More of a name makes a comment too long to be read.
constexpr size_t kMostCommentBytes = 120;

template <typename T>
T StoredAt(const NDArray& tensor, int64_t i) {
  return static_cast<const T*>(tensor.data())[i];
}

std::string UnsignedText(uint64_t x) { return fmt::format("UINT64_C({})", x); }

std::string FloatText(float x) {
  if (std::isnan(x) || std::isinf(x)) return "(float)" + DoubleText(x);
  return fmt::format("(float){:.9g}", x);
}

}  // namespace

std::string CommentText(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, kMostCommentBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    // A star may begin or end a comment together with its neighbours, question
    // marks may be a trigraph, and a backslash may join lines.
    const bool is_safe =
        byte >= ' ' && byte < 127 && c != '*' && c != '?' && c != '\\';
    if (is_safe) {
      safe += c;
    } else {
      safe += fmt::format("<{:02x}>", byte);
    }
  }
  if (text.size() > kMostCommentBytes) safe += "...";
  return safe;
}

std::string SymbolOf(std::string_view text) {
  constexpr std::string_view kPrefix = "nodewise_";
  constexpr size_t kMostBytes = 200;
  std::string symbol(kPrefix);
  if (text.substr(0, kPrefix.size()) == kPrefix) {
    text.remove_prefix(kPrefix.size());
  }
  for (const char c : text.substr(0, kMostBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    symbol += byte < 128 && std::isalnum(byte) != 0 ? c : '_';
  }
  return symbol;
}

bool HasWord(std::string_view code, std::string_view word) {
  const auto is_in_word = [&](size_t i) {
    return i < code.size() &&
           (std::isalnum(static_cast<unsigned char>(code[i])) != 0 ||
            code[i] == '_');
  };
  for (size_t at = code.find(word); at != std::string_view::npos;
       at = code.find(word, at + 1)) {
    const bool begins = at == 0 || !is_in_word(at - 1);
    if (begins && !is_in_word(at + word.size())) return true;
  }
  return false;
}

std::set<std::string_view> WordsOf(std::string_view code) {
  std::set<std::string_view> words;
  size_t begin = 0;
  for (size_t i = 0; i <= code.size(); ++i) {
    const bool is_in_word =
        i < code.size() &&
        (std::isalnum(static_cast<unsigned char>(code[i])) != 0 ||
         code[i] == '_');
    if (is_in_word) continue;
    if (i > begin) words.insert(code.substr(begin, i - begin));
    begin = i + 1;
  }
  return words;
}

DLDataType ComputedType(DLDataType dtype) {
  return ShortFloatName(dtype).empty() ? dtype : kFloat32;
}

std::string_view ShortFloatName(DLDataType dtype) {
  if (dtype == kFloat16) return "half";
  return dtype == kBfloat16 ? "bfloat" : "";
}

std::string_view CTypeOf(DLDataType dtype) {
  if (dtype == kFloat32) return "float";
  if (dtype == kFloat64) return "double";
  if (dtype == kInt64) return "int64_t";
  if (dtype == kInt32) return "int32_t";
  if (dtype == kInt16) return "int16_t";
  if (dtype == kInt8) return "int8_t";
  if (dtype == kUint64) return "uint64_t";
  if (dtype == kUint32) return "uint32_t";
  if (dtype == kUint16 || !ShortFloatName(dtype).empty()) return "uint16_t";
  if (dtype == kUint8 || dtype == kBool) return "uint8_t";
  return "";
}

std::string_view WrappingTypeOf(DLDataType dtype) {
  return dtype.bits == 64 ? "uint64_t" : "uint32_t";
}

std::string DoubleText(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "(-INFINITY)";
  std::string text = fmt::format("{:.17g}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return x < 0 || std::signbit(x) ? "(" + text + ")" : text;
}

std::string IntegerText(int64_t x) {
  // There are no negative literals in C, and the smallest number has no
  // positive one.
  if (x == INT64_MIN) return "(-INT64_C(9223372036854775807) - 1)";
  if (x >= INT32_MIN + 1 && x <= INT32_MAX) return fmt::format("{}", x);
  return fmt::format("INT64_C({})", x);
}

std::string ElementText(const NDArray& tensor, int64_t i) {
  const DLDataType dtype = tensor.dtype();
  if (dtype == kFloat32) return FloatText(StoredAt<float>(tensor, i));
  if (dtype == kFloat64) return DoubleText(StoredAt<double>(tensor, i));
  const bool is_signed = dtype.code == kDLInt;
  switch (ElementBytes(dtype)) {
    case 1:
      return is_signed ? IntegerText(StoredAt<int8_t>(tensor, i))
                       : IntegerText(StoredAt<uint8_t>(tensor, i));
    case 2:
      return is_signed ? IntegerText(StoredAt<int16_t>(tensor, i))
                       : IntegerText(StoredAt<uint16_t>(tensor, i));
    case 4:
      return is_signed ? IntegerText(StoredAt<int32_t>(tensor, i))
                       : UnsignedText(StoredAt<uint32_t>(tensor, i));
    default:
      return is_signed ? IntegerText(StoredAt<int64_t>(tensor, i))
                       : UnsignedText(StoredAt<uint64_t>(tensor, i));
  }
}

std::string CastText(const std::string& x, DLDataType from, DLDataType to) {
  const std::string_view type = CTypeOf(to);
  if (from == to) return x;
  if (IsBool(to)) return fmt::format("{} != 0", x);
  if (IsBool(from)) return fmt::format("({})({} != 0)", type, x);
  if (!IsFloat(from) || IsFloat(to)) return fmt::format("({}){}", type, x);
  if (to == kInt64) return fmt::format("nw_to_int64({})", x);
  if (to == kUint64) return fmt::format("nw_to_uint64({})", x);
  const double span = std::ldexp(1.0, to.bits - (IsUnsigned(to) ? 0 : 1));
  return fmt::format("({})nw_to_integer({}, {}, {})", type, x,
                     DoubleText(IsUnsigned(to) ? 0 : -span),
                     DoubleText(span - 1));
}

}  // namespace nodewise::emit_c
