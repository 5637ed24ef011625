#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/shape_rules.h"

namespace nodewise::emit_c {

// Where the windows of a convolution or a pool lie. Lists are by spatial side.
// The code walks over planes that have their padding around them, so that no
// loop asks whether it is outside.
struct WindowPlan {
  Window window;
  Sizes input;
  Sizes output;
  Sizes padded;  // What the windows reach of a plane with its padding.

  size_t sides() const { return input.size(); }
  bool needs_padding() const;
  int64_t plane() const { return CountIn(padded); }
  int64_t taps() const { return CountIn(window.kernel); }
  // Returns how many of a window's taps lie in the input, or with
  // `with_padding` in that or the padding that the operator asks for, as an
  // expression of the place along a side.
  std::string TapCount(size_t side, bool with_padding,
                       const std::string& place) const;
};

// Returns how many elements of a side so many windows reach over; refuses more
// than any memory holds.
absl::StatusOr<int64_t> ReachOf(int64_t places, int64_t stride, int64_t taps,
                                int64_t dilation);

absl::StatusOr<WindowPlan> PlanWindows(const WindowAttributes& attributes,
                                       const CTensor& x, const CTensor& y);

// Writes loops that copy planes to `to`, surrounded by `fill`.
void PadPlanes(CodeWriter* code, const WindowPlan& plan, int64_t planes,
               const std::string& from, const std::string& to,
               const std::string& fill);

// Opens loops over all places but along the last side: "o0", ...
void OpenRows(CodeWriter* code, const WindowPlan& plan);
// Opens loops over all taps but along the last side: "k0", ...
void OpenTaps(CodeWriter* code, const WindowPlan& plan);
// Returns the index of a row of the output in its plane, of the first element
// under it in the padded plane, and of the first tap of the line of taps.
std::string RowIndex(const WindowPlan& plan);
std::string SourceIndex(const WindowPlan& plan);
std::string TapIndex(const WindowPlan& plan);
// Returns the index of the element under tap `t` at place "o" of the row.
std::string UnderTap(const WindowPlan& plan, int64_t t);

}  // namespace nodewise::emit_c
