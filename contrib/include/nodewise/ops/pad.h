#pragma once

// Operators that put something around tensors or repeat them, and those that
// exchange depth and space. Each class is its operator's primary attributes.

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

enum class PadMode { kConstant, kReflect, kEdge, kWrap };
// Puts elements before and behind each side, or with negative pads cuts them
// off.
struct Pad {
  PadMode mode = PadMode::kConstant;
};

// Repeats the tensor along each side.
struct Tile {};

// Where channels have the depth of the tensor with less of them: before or
// after the place within a block.
enum class DepthOrder { kDepthColumnRow, kColumnRowDepth };
// Makes each group of blocksize^2 channels a block of blocksize by blocksize
// elements of one channel.
struct DepthToSpace {
  Required<int64_t> blocksize = Required<int64_t>::Unset(1);
  DepthOrder mode = DepthOrder::kDepthColumnRow;
};

// Makes each block of blocksize by blocksize elements of a channel one element
// of blocksize^2 channels.
struct SpaceToDepth1 {
  Required<int64_t> blocksize = Required<int64_t>::Unset(1);
};

// From opset 28 on the channels may be in another order.
struct SpaceToDepth : SpaceToDepth1 {
  DepthOrder mode = DepthOrder::kDepthColumnRow;
};

// Crops what is too long around its centre, pads what is too short with 0.
struct CenterCropPad {
  std::optional<std::vector<int64_t>> axes;  // None: all.
};

}  // namespace nodewise::ops
