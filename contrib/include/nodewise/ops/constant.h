#pragma once

// Operators that make tensors from numbers and shapes alone. Each class is its
// operator's primary attributes.

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise::ops {

// A tensor. Exactly one of the forms is given; strings and sparse tensors are
// not supported.
struct Constant {
  std::optional<NDArray> value;
  std::optional<float> value_float;
  std::optional<std::vector<float>> value_floats;
  std::optional<int64_t> value_int;
  std::optional<std::vector<int64_t>> value_ints;
};

// A tensor of the shape that the input holds, filled with one number.
struct ConstantOfShape {
  std::optional<NDArray> value;  // One element; none: 0 as a float32.
};

// start, start + delta, ... short of limit.
struct Range {
  // What a kernel calculates 16-bit floats in (from opset 27 on), by ONNX's
  // number; ignored, since here it is double always.
  int64_t stash_type = 1;
};

// For each index a line with one value at that place and another elsewhere.
struct OneHot {
  int64_t axis = -1;  // Where the lines lie in the result.
};

// A matrix of the input's shape with ones on a diagonal, else zeros.
struct EyeLike {
  std::optional<DLDataType> dtype;  // None: the input's.
  int64_t k = 0;  // Which diagonal: above the main one, or below if negative.
};

// The part of a matrix above or below a diagonal, else zeros.
struct Trilu {
  bool upper = true;
};

}  // namespace nodewise::ops
