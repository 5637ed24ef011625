#pragma once

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// What operators with two inputs have below opset 7, where sides are not
// repeated as NumPy does: the second input is repeated along the sides of the
// first.
struct AxisBroadcast {
  bool broadcast = false;  // False: both inputs have the same shape.
  // The side of the first input that the second one's first side goes with;
  // none: its sides go with the last ones.
  std::optional<int64_t> axis;
};

}  // namespace nodewise::ops
