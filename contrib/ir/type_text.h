#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The pieces that types, tensors and networks are written with. Each Take
// function reads from the front of `text` and cuts off what it has read; on
// unexpected text it cuts up to that place and fails with kInvalidArgument.

// "found NEXT, expected `what`".
absl::Status Expected(std::string_view what, std::string_view text);
// As above, after putting `text` back to `start`, where the fault is.
absl::Status ExpectedAt(std::string_view start, std::string_view what,
                        std::string_view* text);

bool IsWordPart(char c);
// Returns true for a letter or _, followed by letters, digits, _ and dots.
bool IsWord(std::string_view text);

// Returns the text in quotes; bytes below 0x80 that do not print become \xNN.
std::string Quoted(std::string_view text);
absl::StatusOr<std::string> TakeQuoted(std::string_view* text);

// Skips comments, too: // to the end of the line. Returns the rest.
std::string_view SkipBlanks(std::string_view* text);
// Takes `c` if it comes next, with the blanks before it.
bool TakeChar(std::string_view* text, char c);
std::string_view TakeWord(std::string_view* text);  // "" if none comes next.
absl::StatusOr<int64_t> TakeInteger(std::string_view* text);

// "a, b", each taken by `take`: at least one.
template <typename T, typename Take>
absl::StatusOr<std::vector<T>> TakeItems(std::string_view* text, Take take) {
  std::vector<T> items;
  do {
    NODEWISE_ASSIGN_OR_RETURN(T item, take(text));
    items.push_back(std::move(item));
  } while (TakeChar(text, ','));
  return items;
}
// "[a, b]".
template <typename T, typename Take>
absl::StatusOr<std::vector<T>> TakeList(std::string_view* text, Take take) {
  if (!TakeChar(text, '[')) return Expected("[", *text);
  if (TakeChar(text, ']')) return std::vector<T>();
  NODEWISE_ASSIGN_OR_RETURN(std::vector<T> items, TakeItems<T>(text, take));
  if (!TakeChar(text, ']')) return Expected(", or ]", *text);
  return items;
}

absl::StatusOr<TensorType> TakeTensorType(std::string_view* text);
absl::StatusOr<Shape> TakeShape(std::string_view* text);

// Returns "int64[2] [1, -2]"; floats are written so that every bit is read
// back. A tensor with more than `max_elements` elements (0: no limit) is
// written as a hash instead.
std::string TensorText(const NDArray& tensor, size_t max_elements);
absl::StatusOr<NDArray> TakeTensor(std::string_view* text);

std::string FloatText(float number);
absl::StatusOr<float> TakeFloat(std::string_view* text);

}  // namespace nodewise
