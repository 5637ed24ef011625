#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The pieces that types and networks are written with. Each Take function reads
// from the front of `text` and cuts off what it has read; on unexpected text it
// cuts up to that place and fails with kInvalidArgument.

// "found NEXT, expected `what`".
absl::Status Expected(std::string_view what, std::string_view text);

bool IsWordStart(char c);
bool IsWordPart(char c);

// Returns true for a letter or _, followed by letters, digits, _ and dots.
bool IsWord(std::string_view text);

// Returns the text in quotes; bytes below 0x80 that do not print become \xNN.
std::string Quoted(std::string_view text);
absl::StatusOr<std::string> TakeQuoted(std::string_view* text);

// Skips comments, too: // to the end of the line.
void SkipBlanks(std::string_view* text);
// Takes `c` if it comes next, with the blanks before it.
bool TakeChar(std::string_view* text, char c);
std::string_view TakeWord(std::string_view* text);  // "" if none comes next.
absl::StatusOr<int64_t> TakeInteger(std::string_view* text);

absl::StatusOr<TensorType> TakeTensorType(std::string_view* text);
absl::StatusOr<Shape> TakeShape(std::string_view* text);

}  // namespace nodewise
