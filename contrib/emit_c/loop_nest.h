#pragma once

// Loops over the places of a tensor, and where its elements lie.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "contrib/emit_c/c_text.h"
#include "fmt/format.h"

namespace nodewise::emit_c {

using Sizes = std::vector<int64_t>;

int64_t CountIn(absl::Span<const int64_t> sizes);

// A tensor seen as [outer, size, inner], `size` being one of its sides.
struct Lines {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
Lines LinesAlong(const Sizes& sizes, size_t side);

// Where the elements of a tensor lie that belong to the places of a loop: at
// offset + the sum of place * stride.
struct View {
  Sizes strides;
  int64_t offset = 0;
};
View CompactView(absl::Span<const int64_t> sizes);
// Repeats a compact tensor over larger sizes, as NumPy does.
View RepeatedView(absl::Span<const int64_t> from, absl::Span<const int64_t> to);

// Returns the sum of some terms; "0" if there are none.
std::string SumOf(const std::vector<std::string>& terms);
// Returns "i0 * STRIDE + i1 * STRIDE + ..." for variables that begin with
// `letter`.
std::string IndexText(std::string_view letter,
                      absl::Span<const int64_t> strides);

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
  void Close(CodeWriter* code) const {
    code->Close(static_cast<int>(sizes_.size()));
  }
  // Writes loops with one line in them.
  template <typename... Args>
  void Each(CodeWriter* code, fmt::format_string<Args...> line,
            Args&&... args) const {
    Open(code);
    code->Line(
        std::string_view(fmt::format(line, std::forward<Args>(args)...)));
    Close(code);
  }
  // Returns the index of the place in a view.
  std::string At(size_t view) const;

 private:
  std::string letter_;
  Sizes sizes_;
  std::vector<View> views_;  // With the sides that are left.
  bool is_empty_ = false;
};

}  // namespace nodewise::emit_c
