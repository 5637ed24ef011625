#pragma once

// Rules for windows and shapes of convolutions and pools beyond shape_rules.h;
// only for their files.

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/kernels/window_columns.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"

namespace nodewise {

// The attributes that convolutions of all kinds have.
constexpr auto ConvFields() {
  using Class = ops::ConvAttributes;
  return FieldList(
      Field<&Class::auto_pad>("auto_pad"),
      Field<&Class::dilations>("dilations"), Field<&Class::group>("group"),
      Field<&Class::kernel_shape>("kernel_shape"), Field<&Class::pads>("pads"),
      Field<&Class::strides>("strides"));
}

// A window on an input of known size.
struct PlacedWindow {
  Window window;                // With the pads of SAME_* filled in.
  std::vector<int64_t> input;   // Spatial sides.
  std::vector<int64_t> output;  // How often the window fits along each.
};
absl::StatusOr<PlacedWindow> PlaceWindow(const WindowAttributes& attributes,
                                         absl::Span<const int64_t> input);

// Returns what the loops of contrib/kernels take for such a window.
WindowGeometry GeometryOf(const PlacedWindow& placed);

// Returns the spatial sides of the output (from side 2 on), unknown where those
// of the input are.
absl::StatusOr<Shape> WindowedSides(const WindowAttributes& attributes,
                                    const Shape& input);

// Returns the kernel's sides: those of the attribute, or if it is not set those
// of the weights from side 2 on. Empty if they are not known.
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
