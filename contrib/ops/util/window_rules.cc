#include "contrib/ops/util/window_rules.h"

#include "contrib/ops/util/inputs.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Calculations with longer sides overflow.
constexpr int64_t kLongest = int64_t{1} << 40;

// The pads of SAME_* depend on the size of the side, so they are found one side
// at a time, where that is known.
absl::StatusOr<int64_t> Place(const WindowAttributes& attributes, int side,
                              int64_t size, Window* window) {
  if (size < 0 || size > kLongest) {
    return InvalidArgument("spatial side {} is {}, expected 0 to 2^40", side,
                           size);
  }
  PadSame(attributes.auto_pad, side, size, window);
  return WindowCount(*window, side, size, attributes.ceil_mode);
}

}  // namespace

absl::StatusOr<PlacedWindow> PlaceWindow(const WindowAttributes& attributes,
                                         absl::Span<const int64_t> input) {
  const int spatial = static_cast<int>(input.size());
  PlacedWindow placed;
  NODEWISE_ASSIGN_OR_RETURN(placed.window, ResolveWindow(attributes, spatial));
  placed.input.assign(input.begin(), input.end());
  for (int side = 0; side < spatial; ++side) {
    NODEWISE_ASSIGN_OR_RETURN(
        const int64_t count,
        Place(attributes, side, input[static_cast<size_t>(side)],
              &placed.window));
    placed.output.push_back(count);
  }
  return placed;
}

// A kernel that is not known yet, as that of a convolution whose weights are an
// input, leaves all sides open.
absl::StatusOr<Shape> WindowedSides(const WindowAttributes& attributes,
                                    const Shape& input) {
  const int spatial = static_cast<int>(input.size()) - 2;
  Shape sides = UnknownShape(spatial);
  if (attributes.kernel_shape.empty() && spatial > 0) return sides;
  NODEWISE_ASSIGN_OR_RETURN(Window window, ResolveWindow(attributes, spatial));
  for (int side = 0; side < spatial; ++side) {
    const auto s = static_cast<size_t>(side);
    if (!input[s + 2].is_known()) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const int64_t count,
        Place(attributes, side, input[s + 2].size(), &window));
    sides[s] = count;
  }
  return sides;
}

// The attribute only repeats what the weights say, and a contradiction between
// them is an error of the model.
absl::StatusOr<std::vector<int64_t>> KernelOf(
    const std::vector<int64_t>& attribute, const TensorType& weight) {
  if (!weight.has_rank()) return attribute;
  const auto spatial = static_cast<size_t>(weight.rank() - 2);
  if (!attribute.empty() && attribute.size() != spatial) {
    return WrongAttribute(
        "kernel_shape",
        "has {} numbers, expected {} as the weights have spatial sides",
        attribute.size(), spatial);
  }
  std::vector<int64_t> kernel = attribute;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim& side = (*weight.shape)[i + 2];
    if (attribute.empty()) {
      if (!side.is_known()) return std::vector<int64_t>();
      kernel.push_back(side.size());
    } else if (side.is_known() && side.size() != attribute[i]) {
      return WrongAttribute(
          "kernel_shape", "is {} along side {}, expected {} as the weights are",
          attribute[i], i, side.size());
    }
  }
  return kernel;
}

// Padding is not stored: a window that begins before the input has a negative
// offset.
WindowGeometry GeometryOf(const PlacedWindow& placed) {
  const Window& window = placed.window;
  WindowGeometry geometry{
      window.kernel, window.strides, window.dilations, {}, {},
      placed.input,  placed.output};
  geometry.spread.assign(placed.input.size(), 1);
  for (size_t s = 0; s < placed.input.size(); ++s) {
    geometry.offsets.push_back(-window.pads[s]);
  }
  DropSidesOfOne(&geometry);
  return geometry;
}

}  // namespace nodewise
