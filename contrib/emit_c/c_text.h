#pragma once

// What C's grammar asks for: types, numbers, identifiers, comments.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "dlpack/dlpack.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise::emit_c {

// Returns the text so that it neither ends a comment nor begins another one,
// and needs no other character set than C's: what is in a model can be
// anything.
std::string CommentText(std::string_view text);

// Returns an identifier that begins with "nodewise_", made of the letters and
// digits of a text.
std::string SymbolOf(std::string_view text);

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

}  // namespace nodewise::emit_c
