#pragma once

// Loops over the places of a tensor, as C.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "contrib/emit_c/code_writer.h"

namespace nodewise::emit_c {

using Sizes = std::vector<int64_t>;

int64_t CountIn(absl::Span<const int64_t> sizes);

// Where the elements of a tensor lie that belong to the places of a loop: at
// offset + the sum of place * stride.
struct View {
  Sizes strides;
  int64_t offset = 0;
};
View CompactView(absl::Span<const int64_t> sizes);
// Repeats a compact tensor over larger sizes, as NumPy does.
View RepeatedView(absl::Span<const int64_t> from, absl::Span<const int64_t> to);
// Returns the view of some of the sides.
View ViewOf(const View& view, absl::Span<const size_t> sides);

// Sides that lie one behind the other in all views are one loop, and the last
// is the innermost.
class LoopNest {
 public:
  // `letter` begins the names of the loops' variables.
  LoopNest(const Sizes& sizes, std::vector<View> views,
           std::string letter = "i");

  // There is no place to go to, so nothing should be written.
  bool is_empty() const { return is_empty_; }
  // All places lie one behind the other in all views.
  bool is_one_row() const;

  void Open(CodeWriter* code) const;
  void Close(CodeWriter* code) const;
  // Returns the index of the place in a view.
  std::string At(size_t view) const;

 private:
  std::string letter_;
  Sizes sizes_;
  std::vector<View> views_;  // With the sides that are left.
  bool is_empty_ = false;
};

}  // namespace nodewise::emit_c
