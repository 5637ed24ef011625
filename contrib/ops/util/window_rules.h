#pragma once

// What convolutions and pools say of their windows and shapes; beyond
// shape_rules.h, for these files alone.

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// A window on an input of known size.
struct PlacedWindow {
  Window window;                // With the pads of SAME_* filled in.
  std::vector<int64_t> input;   // Spatial sides.
  std::vector<int64_t> output;  // How often the window fits along each.
};
absl::StatusOr<PlacedWindow> PlaceWindow(const WindowAttributes& attributes,
                                         absl::Span<const int64_t> input);

// The spatial sides of the output, unknown where those of the input are (sides
// from 2 on).
absl::StatusOr<Shape> WindowedSides(const WindowAttributes& attributes,
                                    const Shape& input);

// The kernel's sides: the attribute's, or where it is not set those of the
// weights from side 2 on. Empty if they are not known.
absl::StatusOr<std::vector<int64_t>> KernelOf(
    const std::vector<int64_t>& attribute, const TensorType& weight);

// Moves `at` to the next position along the sides, row by row; false after the
// last, when it is back at the first. For outer loops only.
inline bool NextIndex(absl::Span<const int64_t> sizes,
                      std::vector<int64_t>* at) {
  for (size_t i = sizes.size(); i-- > 0;) {
    if (++(*at)[i] < sizes[i]) return true;
    (*at)[i] = 0;
  }
  return false;
}

}  // namespace nodewise
