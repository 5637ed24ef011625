#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace nodewise::emit_c {

// Code of nodes that do the same over tensors of other sizes differs in whole
// numbers alone. It becomes one function that takes those which differ: a C
// compiler takes most of its time for each function, however small it is.

// The text between the braces of a function.
struct LoopsText {
  std::string parameters;
  std::string body;
  // Compilers make faster code if they know the sizes, so it is not shared.
  bool keeps_sizes = false;
};

struct SharedLoops {
  struct Function {
    std::string parameters;
    std::string body;
    bool takes_numbers = false;  // "const int64_t* numbers" behind all others.
  };
  // The call of the text with the same index.
  struct Call {
    size_t function = 0;               // An index into `functions`.
    std::vector<std::string> numbers;  // In C.
  };
  std::vector<Function> functions;
  std::vector<Call> calls;
};
SharedLoops ShareLoops(absl::Span<const LoopsText> texts);

// The whole numbers of some code, and the text between them. Numbers in tables
// and those of 64 bits are left in the text.
struct Skeleton {
  std::vector<std::string> between;  // One more than there are numbers.
  std::vector<std::string> numbers;
};
Skeleton SkeletonOf(std::string_view code);

}  // namespace nodewise::emit_c
