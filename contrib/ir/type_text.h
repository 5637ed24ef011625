#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The pieces that types and networks are written with. Each Take reads what
// stands at the front of `text` and cuts it off; where it is not what is
// wanted, `text` is cut up to the place and the error is kInvalidArgument.

// "found NEXT, expected `what`".
absl::Status Expected(std::string_view what, std::string_view text);

bool IsWordStart(char c);
bool IsWordPart(char c);

// True for a letter or _ with letters, digits, _ and . behind.
bool IsWord(std::string_view text);

// In quotes; what is not printable ASCII or above is \xNN.
std::string Quoted(std::string_view text);
absl::StatusOr<std::string> TakeQuoted(std::string_view* text);

// Comments, too: // to the end of the line.
void SkipBlanks(std::string_view* text);
// Takes `c` if it comes next, blanks in front of it too.
bool TakeChar(std::string_view* text, char c);
std::string_view TakeWord(std::string_view* text);  // "" if none comes next.
absl::StatusOr<int64_t> TakeInteger(std::string_view* text);

absl::StatusOr<TensorType> TakeTensorType(std::string_view* text);
absl::StatusOr<Shape> TakeShape(std::string_view* text);

}  // namespace nodewise
