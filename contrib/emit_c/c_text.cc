#include "contrib/emit_c/c_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "nodewise/op/tensor_loops.h"

namespace nodewise::emit_c {

namespace {

// More of a name makes a comment too long to be read.
constexpr size_t kMostCommentBytes = 120;

template <typename T>
std::string StoredText(const NDArray& tensor, int64_t i) {
  const T x = tensor.As<const T>()[i];
  // A literal beyond the range of int has to name its type, or C would choose
  // one by its digits.
  if constexpr (std::is_unsigned_v<T> && sizeof(T) >= 4) {
    return fmt::format("UINT64_C({})", uint64_t{x});
  } else {
    return IntegerText(x);
  }
}

// Nine digits tell any two floats apart, and seventeen any two doubles
// (DoubleText), so that a compiler reads back the bits that were written.
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
    safe += is_safe ? std::string(1, c) : fmt::format("<{:02x}>", byte);
  }
  if (text.size() > kMostCommentBytes) safe += "...";
  return safe;
}

// Names that begin as lowering begins them keep that once. More than so many
// bytes would only make the file longer: names that become the same are told
// apart by a number behind them (FunctionList).
std::string SymbolOf(std::string_view text) {
  constexpr std::string_view kPrefix = "nodewise_";
  constexpr size_t kMostBytes = 200;
  std::string symbol(kPrefix);
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  for (const char c : text.substr(0, kMostBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    symbol += byte < 128 && std::isalnum(byte) != 0 ? c : '_';
  }
  return symbol;
}

bool IsWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// A name may stand inside a longer one, as tmp1 does in tmp10, so each place is
// looked at until one is a word by itself.
bool HasWord(std::string_view code, std::string_view word) {
  for (size_t at = code.find(word); at != std::string_view::npos;
       at = code.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordByte(code[at - 1]);
    if (begins && (end == code.size() || !IsWordByte(code[end]))) return true;
  }
  return false;
}

std::set<std::string_view> WordsOf(std::string_view code) {
  std::set<std::string_view> words;
  for (auto begin = code.begin(); begin != code.end();) {
    begin = std::find_if(begin, code.end(), IsWordByte);
    const auto end = std::find_if_not(begin, code.end(), IsWordByte);
    if (begin != end) words.emplace(begin, end);
    begin = end;
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

// Truth values are a byte each in TVM, and floats of 16 bits have no type of
// their own in C99.
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

// A number that looks like an integer gets a point, or C would calculate with
// it as with an integer: 1 / 2 is 0. One with a sign is in brackets, so that it
// may follow a minus.
std::string DoubleText(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "(-INFINITY)";
  std::string text = fmt::format("{:.17g}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return x < 0 || std::signbit(x) ? "(" + text + ")" : text;
}

std::string IntegerText(int64_t x) {
  // There are no negative literals in C, and the smallest number has no
  // positive one. Numbers of int are written plainly, so that they can become
  // parameters of shared loops (shared_loops.h).
  if (x == INT64_MIN) return "(-INT64_C(9223372036854775807) - 1)";
  if (x >= INT32_MIN + 1 && x <= INT32_MAX) return fmt::format("{}", x);
  return fmt::format("INT64_C({})", x);
}

std::string ElementText(const NDArray& tensor, int64_t i) {
  const DLDataType dtype = tensor.dtype();
  if (dtype == kFloat32) return FloatText(tensor.As<const float>()[i]);
  if (dtype == kFloat64) return DoubleText(tensor.As<const double>()[i]);
  // Anything else is an integer, or is stored as the bits of one.
  const size_t bytes = ElementBytes(dtype);
  if (dtype.code == kDLInt) {
    if (bytes == 1) return StoredText<int8_t>(tensor, i);
    if (bytes == 2) return StoredText<int16_t>(tensor, i);
    return bytes == 4 ? StoredText<int32_t>(tensor, i)
                      : StoredText<int64_t>(tensor, i);
  }
  if (bytes == 1) return StoredText<uint8_t>(tensor, i);
  if (bytes == 2) return StoredText<uint16_t>(tensor, i);
  return bytes == 4 ? StoredText<uint32_t>(tensor, i)
                    : StoredText<uint64_t>(tensor, i);
}

// C leaves open what a float out of range becomes as an integer, hence the
// helpers. Those of 64 bits have their own, since a double does not hold their
// largest number: 2^63 - 1 would be rounded to 2^63, which is out of range.
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

void CodeWriter::Line(std::string_view line) {
  text_.append(static_cast<size_t>(2 * depth_), ' ');
  text_ += line;
  text_ += '\n';
}

void CodeWriter::Open(std::string_view head) {
  Line(head.empty() ? "{" : fmt::format("{} {{", head));
  ++depth_;
}

void CodeWriter::For(std::string_view index, std::string_view count) {
  Open("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, count);
}

void CodeWriter::Close(int blocks) {
  for (; blocks > 0; --blocks) {
    --depth_;
    Line("}");
  }
}

}  // namespace nodewise::emit_c
