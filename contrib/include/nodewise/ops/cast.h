#pragma once

// Changes of the element type. Each class is its operator's primary attributes.

#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/short_float.h"

namespace nodewise::ops {

// The numbers in another type; floats are cut off to integers.
struct Cast {
  DLDataType to{};  // Required.
  // For 8-bit floats: numbers that are too large become the largest.
  bool saturate = true;
  // For 8-bit floats that are powers of two.
  RoundMode round_mode = RoundMode::kUp;
};

// The numbers of input 0 in the type of input 1.
struct CastLike {
  bool saturate = true;  // As in Cast.
  RoundMode round_mode = RoundMode::kUp;
};

// The bits read as another type of the same width.
struct BitCast {
  DLDataType to{};  // Required.
};

}  // namespace nodewise::ops
