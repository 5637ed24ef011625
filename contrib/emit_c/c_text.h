#pragma once

// The C of every operation is written with these: types, numbers and names as
// C's grammar asks for them, and indented lines.

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "dlpack/dlpack.h"
#include "fmt/format.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise::emit_c {

// Returns the text so that it neither ends a comment nor begins another one,
// and needs no other character set than C's: what is in a model can be
// anything.
std::string CommentText(std::string_view text);

// Returns an identifier that begins with "nodewise_", made of the letters and
// digits of a text.
std::string SymbolOf(std::string_view text);

// Whether identifiers have this character.
bool IsWordByte(char c);
// Returns whether code has this identifier.
bool HasWord(std::string_view code, std::string_view word);
// Returns all words of letters, digits and underscores.
std::set<std::string_view> WordsOf(std::string_view code);

// Returns C's name of the type that elements are stored in; empty if there is
// none. Floats of 16 bits are stored as their bits.
std::string_view CTypeOf(DLDataType dtype);
// Returns the type that elements are computed in: they differ for floats of 16
// bits alone.
DLDataType ComputedType(DLDataType dtype);
// Returns how the helpers for a float of 16 bits are called: "half" or
// "bfloat", as in nw_to_half; "" for any other type.
std::string_view ShortFloatName(DLDataType dtype);
// Returns the unsigned type that integers of this type are added in, since C
// does not say what happens when signed ones overflow.
std::string_view WrappingTypeOf(DLDataType dtype);

// Numbers as C writes them. NaN and the infinities have names in <math.h>.
std::string DoubleText(double x);
std::string IntegerText(int64_t x);
// Returns element `i`. REQUIRES: CTypeOf() knows the type.
std::string ElementText(const NDArray& tensor, int64_t i);
// Returns a number of one type as one of another. Floats are cut off, and those
// out of range give the nearest integer in it.
std::string CastText(const std::string& x, DLDataType from, DLDataType to);

// Lines of C, indented by the blocks that they are in.
class CodeWriter {
 public:
  explicit CodeWriter(int depth = 0) : depth_(depth) {}

  void Line(std::string_view line);
  template <typename Arg, typename... Args>
  void Line(fmt::format_string<Arg, Args...> line, Arg&& arg, Args&&... args) {
    Line(
        fmt::format(line, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  // Begins a block: "HEAD {". No head begins one for the sake of its names.
  void Open(std::string_view head = "");
  template <typename Arg, typename... Args>
  void Open(fmt::format_string<Arg, Args...> head, Arg&& arg, Args&&... args) {
    Open(
        fmt::format(head, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  // Begins a loop of an int64_t from 0 on: count is a number or an expression.
  void For(std::string_view index, std::string_view count);
  void For(std::string_view index, int64_t count) {
    For(index, IntegerText(count));
  }
  // Begins a loop of each index up to its count, one in the other.
  using Loops = std::initializer_list<std::pair<std::string_view, int64_t>>;
  void For(Loops loops) {
    for (const auto& [index, count] : loops) For(index, count);
  }
  void Close(int blocks = 1);

  // Writes a loop with one line in it.
  template <typename Count, typename... Args>
  void Each(std::string_view index, Count count,
            fmt::format_string<Args...> line, Args&&... args) {
    For(index, count);
    Line(std::string_view(fmt::format(line, std::forward<Args>(args)...)));
    Close();
  }

  std::string TakeText() { return std::move(text_); }

 private:
  std::string text_;
  int depth_;
};

}  // namespace nodewise::emit_c
